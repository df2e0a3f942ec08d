package cli

import (
	"io"
	"log/slog"
	"strings"

	"github.com/later-queue/later/internal/terminal"
)

// logger writes what is logged to standard error. Messages never hold payloads;
// what they hold of errors is quoted by the handler.
func (a *App) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(safeLog{a.Err}, &slog.HandlerOptions{Level: level}))
}

// jsonLogger is logger with one JSON object a line.
func (a *App) jsonLogger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(a.safeJSON(a.Err), &slog.HandlerOptions{Level: level}))
}

// safeLog makes each line of the log safe for a terminal: the text handler
// quotes controls, but leaves a few direction marks and fillers as they are.
type safeLog struct{ w io.Writer }

func (l safeLog) Write(p []byte) (int, error) {
	line := strings.TrimSuffix(string(p), "\n")
	if _, err := io.WriteString(l.w, terminal.Safe(line)+"\n"); err != nil {
		return 0, err
	}
	return len(p), nil
}
