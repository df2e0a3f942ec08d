package open

import (
	"net/url"
	"strings"
)

// hidden stands where a password stood.
const hidden = "xxxxx"

// Redact returns rawURL fit to be shown: its password, if it has one, replaced.
func Redact(rawURL string) string {
	for _, secret := range secrets(rawURL) {
		rawURL = strings.ReplaceAll(rawURL, secret, hidden)
	}
	return rawURL
}

// hideSecrets returns err with the password of rawURL replaced in its text. The
// chain below it stays as it is, for errors.Is and errors.As.
func hideSecrets(err error, rawURL string) error {
	text := err.Error()
	safe := text
	for _, secret := range secrets(rawURL) {
		safe = strings.ReplaceAll(safe, secret, hidden)
	}
	if safe == text {
		return err
	}
	return &safeError{text: safe, err: err}
}

type safeError struct {
	text string
	err  error
}

func (e *safeError) Error() string { return e.text }
func (e *safeError) Unwrap() error { return e.err }

// secrets returns the passwords in rawURL, as written and as meant, also where
// the URL does not parse: from the first colon behind the user to the last @,
// and the value of a parameter password or sslpassword.
func secrets(rawURL string) []string {
	var found []string
	add := func(secret string) {
		if secret == "" {
			return
		}
		found = append(found, secret)
		if plain, err := url.PathUnescape(secret); err == nil && plain != secret {
			found = append(found, plain)
		}
		if plain, err := url.QueryUnescape(secret); err == nil && plain != secret {
			found = append(found, plain)
		}
	}
	_, rest, isURL := strings.Cut(rawURL, "://")
	if !isURL {
		return nil // sqlite:file, or refused before anything of it is shown
	}
	rest, parameters, _ := strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if _, password, ok := strings.Cut(rest[:at], ":"); ok {
			add(password)
		}
	}
	// A password with a raw ? or / in it: whatever ends at the last @ of all.
	if at := strings.LastIndex(rawURL, "@"); at > len(rawURL)-len(parameters) {
		if _, password, ok := strings.Cut(rawURL[len(rawURL)-len(rest)-len(parameters)-1:at], ":"); ok {
			add(password)
		}
	}
	for _, parameter := range strings.Split(parameters, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(name, "password") || strings.EqualFold(name, "sslpassword") {
			add(value)
		}
	}
	return found
}
