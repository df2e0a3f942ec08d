//go:build !linux

package command

// wait returns when the command has ended, has been reaped, and what it left in
// its group was killed. Between the last two its id is free for a moment; a
// system gives out ids in turn, so nobody has it yet.
func (p *process) wait() {
	_ = p.cmd.Wait() // ProcessState tells all that the error does
	p.mu.Lock()
	killGroup(p.cmd.Process)
	p.reaped = true
	p.mu.Unlock()
}
