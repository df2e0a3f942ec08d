// Package demo shows Later at work: a small shop takes orders and confirms each
// by mail, in several processes, while the mail service fails at random, one
// worker is killed and another is sent home. At the end the shop's books and the
// mail service's outbox are compared, order by order.
//
// [OrderConfirmation] and what uses it, in order.go, is the part to copy.
package demo
