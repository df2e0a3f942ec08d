package mailapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// ReadOutbox returns the mails of an outbox in the order in which they were
// written.
func ReadOutbox(file string) ([]Mail, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	defer f.Close()
	var mails []Mail
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var mail Mail
		if err := json.Unmarshal(lines.Bytes(), &mail); err != nil {
			return nil, fmt.Errorf("read the outbox: line %d: %w", len(mails)+1, err)
		}
		mails = append(mails, mail)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return mails, nil
}
