// Package spelling guesses which word was meant.
package spelling

import "strings"

// Nearest returns the candidate that word most likely was meant to be, or ""
// when none is near. Upper and lower case count as equal, as do - and _. Near
// is at most a third of the word's letters inserted, deleted, replaced or
// swapped with a neighbour, and at least one; or a beginning of three letters.
func Nearest(word string, candidates []string) string {
	word = fold(word)
	if word == "" || len(word) > 100 {
		return ""
	}
	best, bestDistance := "", max(1, (len(word)+1)/3)+1
	for _, candidate := range candidates {
		d := distance([]rune(word), []rune(fold(candidate)))
		if d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, candidate := range candidates {
		if strings.HasPrefix(fold(candidate), word) {
			return candidate
		}
	}
	return ""
}

// DidYouMean is Nearest as the end of an error: ` (did you mean "x"?)`, or "".
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return ` (did you mean "` + near + `"?)`
	}
	return ""
}

func fold(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "-", "_")
}

// distance is the optimal string alignment distance: Levenshtein's with swaps
// of neighbours, which are what typing errors mostly are.
func distance(a, b []rune) int {
	before := make([]int, len(b)+1) // of a[:i-2]
	above := make([]int, len(b)+1)  // of a[:i-1]
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
