package sqlite

// budget is how many bytes of payloads a claim may give; nil has no bound. A job is given as
// long as there is a byte left, so that a large one is given at all.
type budget struct{ left int }

func newBudget(bytes int) *budget {
	if bytes <= 0 {
		return nil
	}
	return &budget{bytes}
}

func (b *budget) spend(bytes int) {
	if b != nil {
		b.left -= bytes
	}
}

func (b *budget) copy() *budget {
	if b == nil {
		return nil
	}
	left := *b
	return &left
}

func (b *budget) set(left *budget) {
	if b != nil {
		*b = *left
	}
}

func (b *budget) spent() bool { return b != nil && b.left <= 0 }
