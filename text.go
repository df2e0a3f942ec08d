package later

import (
	"strings"
	"unicode/utf8"
)

// CleanText makes text storable everywhere: NUL becomes the symbol ␀, each
// run of invalid bytes becomes U+FFFD, and what is longer than limit bytes is cut on a rune's
// boundary with the sign … at its end. The result is at most limit bytes long
// (limit is at least 3).
func CleanText(text string, limit int) string {
	// Cut before cleaning, so that a huge text costs no huge copy. (Cleaning
	// may shorten what is left: a run of invalid bytes becomes one U+FFFD.)
	cut := len(text) > limit
	if cut {
		text = clip(text, limit)
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = strings.ReplaceAll(text, "\x00", "␀")
	if cut {
		return clip(text, limit-len("…")) + "…"
	}
	return ClipText(text, limit)
}

// ClipText cuts valid UTF-8 that is longer than limit bytes on a rune's
// boundary and ends it with the sign ….
func ClipText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return clip(text, limit-len("…")) + "…"
}

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && end > limit-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
