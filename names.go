package later

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

const (
	// DefaultQueue is the queue of a job that names none.
	DefaultQueue = "default"

	// MaxNameBytes is the longest queue or kind. Chosen, not measured: it fits
	// into a metrics label and a terminal column.
	MaxNameBytes = 100

	// MaxTenantBytes is the longest tenant. Chosen, not measured: a URL or an
	// e-mail address fits.
	MaxTenantBytes = 200
)

// CheckName returns nil when name can be a queue or a kind: 1 to
// [MaxNameBytes] of the letters A–Z and a–z, digits, and _ . : - (the first a
// letter, a digit or _). What it accepts works unescaped in SQL filters, URLs,
// metrics labels and shell commands. Otherwise the error is a [FieldError]
// that names field.
func CheckName(field, name string) error {
	if name == "" {
		return &FieldError{Field: field, Reason: "is empty"}
	}
	if len(name) > MaxNameBytes {
		return &FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxNameBytes)}
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
		if letter || i > 0 && (r == '.' || r == ':' || r == '-') {
			continue
		}
		return &FieldError{Field: field, Reason: fmt.Sprintf(
			"%q has %q at byte %d; allowed are letters, digits and _, and after the first also . : -", name, r, i)}
	}
	return nil
}

// CheckTenant returns nil when name can be a tenant: empty (no tenant), or up
// to [MaxTenantBytes] of valid UTF-8 without control or invisible characters
// and without a space at either end. Tenants are compared byte by byte: two
// spellings of one letter (NFC, NFD) are two tenants. Otherwise the error is a
// [FieldError].
func CheckTenant(name string) error {
	fault := func(reason string) error { return &FieldError{Field: "tenant", Reason: reason} }
	if len(name) > MaxTenantBytes {
		return fault(fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxTenantBytes))
	}
	if !utf8.ValidString(name) {
		return fault("is not valid UTF-8")
	}
	for i, r := range name {
		if !unicode.IsPrint(r) {
			return fault(fmt.Sprintf("has the unprintable character %U at byte %d", r, i))
		}
	}
	if name != "" && (name[0] == ' ' || name[len(name)-1] == ' ') {
		return fault("begins or ends with a space")
	}
	return nil
}
