package command

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Parse makes [Config.Command] from one string. Plain and quoted words are
// split as a POSIX shell splits them, and no shell runs:
//
//	./thumbnail.sh --size 10 'a b'  →  ["./thumbnail.sh" "--size" "10" "a b"]
//
// Anything that only a shell understands (a variable, a pipe, a redirection, a
// pattern, several commands, a shell's own command such as exit or cd) is given to
// /bin/sh as it is:
//
//	gzip -c | aws s3 cp - "$TARGET"  →  ["/bin/sh" "-c" "gzip -c | aws s3 cp - \"$TARGET\""]
//
// On Windows a backslash is a plain character, so that paths can be written, and
// what needs a shell is an error when no sh is in PATH.
func Parse(text string) ([]string, error) {
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("command: has a NUL byte")
	}
	words, plain, err := split(text, runtime.GOOS == "windows")
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", text, err)
	}
	if plain && len(words) == 0 || plain && words[0] == "" {
		return nil, errors.New("command: is empty")
	}
	if plain {
		return words, nil
	}
	shell := "/bin/sh"
	if runtime.GOOS == "windows" {
		if shell, err = exec.LookPath("sh"); err != nil {
			return nil, fmt.Errorf("command %q: needs a shell, and there is no sh in PATH; put it into a script", text)
		}
	}
	return []string{shell, "-c", text}, nil
}

// shellWords are commands that only a shell has: the reserved words and special
// built-ins of POSIX (Shell Command Language, 2.4 and 2.14), the built-ins that
// change the shell itself, and the words that bash adds.
var shellWords = strings.Fields(`
	! { } case do done elif else esac fi for if in then until while
	. : break continue eval exec exit export readonly return set shift times trap unset
	alias bg cd command fc fg getopts hash jobs local read type ulimit umask unalias wait
	[[ ]] coproc declare function let select shopt source time typeset`)

// split splits text into words, or stops at the first thing that only a shell
// understands (plain is false). An error is one in a shell too.
func split(text string, backslashIsPlain bool) (words []string, plain bool, err error) {
	var (
		word   strings.Builder
		inWord bool
		quoted bool // any part of the first word: then it is no shell word
	)
	end := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ' || c == '\t':
			end()
		case c == '\'':
			inWord = true
			quoted = quoted || len(words) == 0
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				return nil, false, errors.New("a ' is not closed")
			}
			word.WriteString(text[i+1 : i+1+n])
			i += n + 1
		case c == '"':
			inWord = true
			quoted = quoted || len(words) == 0
			n, ok := splitQuoted(text[i+1:], &word, backslashIsPlain)
			if n < 0 && ok {
				return nil, false, errors.New(`a " is not closed`)
			}
			if !ok {
				return nil, false, nil
			}
			i += n + 1
		case c == '\\' && !backslashIsPlain:
			if i+1 == len(text) {
				return nil, false, errors.New(`ends with a \`)
			}
			inWord = true
			quoted = quoted || len(words) == 0
			i++
			if text[i] == '\n' {
				return nil, false, nil
			}
			word.WriteByte(text[i])
		case strings.IndexByte("|&;<>()$`*?[]{}\n\r", c) >= 0,
			!inWord && (c == '#' || c == '~'),
			c == '=' && len(words) == 0: // an assignment
			return nil, false, nil
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	end()
	if len(words) > 0 && !quoted && slices.Contains(shellWords, words[0]) {
		return nil, false, nil
	}
	return words, true, nil
}

// splitQuoted reads up to the closing " and returns its index, or −1. ok is
// false when it came to something that a shell replaces.
func splitQuoted(text string, word *strings.Builder, backslashIsPlain bool) (n int, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i, true
		case c == '$' || c == '`':
			return -1, false
		case c == '\\' && !backslashIsPlain && i+1 < len(text):
			i++
			if text[i] == '\n' {
				return -1, false
			}
			if strings.IndexByte("$`\"\\", text[i]) < 0 {
				word.WriteByte('\\')
			}
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return -1, true
}
