package terminal

import (
	"io"
	"strings"
)

// Table prints rows in columns. Cells are made safe, so that no cell can break
// a row or reach the terminal's commands.
type Table struct {
	columns []Column
	rows    [][]Cell
}

// Column is a column's head and shape.
type Column struct {
	Title string
	Right bool // numbers
	// Max is the widest that the column may be; 0 is any.
	Max int
	// Rest: the column takes what is left of the line, and is cut there. Only
	// one column can be that.
	Rest bool
}

// Cell is a text and its paint, which may be nil.
type Cell struct {
	Text  string
	Paint Paint
}

// NewTable returns a table without rows.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds a row of plain cells.
func (t *Table) Row(cells ...string) {
	row := make([]Cell, len(cells))
	for i, text := range cells {
		row[i].Text = text
	}
	t.Cells(row...)
}

// Cells adds a row; there must be a cell for each column.
func (t *Table) Cells(cells ...Cell) {
	row := make([]Cell, len(t.columns))
	copy(row, cells)
	for i := range row {
		row[i].Text = Safe(row[i].Text)
		if limit := t.columns[i].Max; limit > 0 {
			row[i].Text = Clip(row[i].Text, limit)
		}
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// minimumRest is how narrow a Rest column gets before the line is left to wrap.
const minimumRest = 10

// Lines returns the head, painted, and the rows. width is the terminal's, for
// the column that takes the rest; 0 is endless.
func (t *Table) Lines(width int, head Paint) []string {
	widths := t.widths(width)
	title := make([]Cell, len(t.columns))
	for i, c := range t.columns {
		title[i] = Cell{Text: c.Title, Paint: head}
	}
	lines := []string{t.line(title, widths)}
	for _, row := range t.rows {
		lines = append(lines, t.line(row, widths))
	}
	return lines
}

// Print writes Lines.
func (t *Table) Print(w io.Writer, width int, head Paint) error {
	_, err := io.WriteString(w, strings.Join(t.Lines(width, head), "\n")+"\n")
	return err
}

func (t *Table) widths(width int) []int {
	widths := make([]int, len(t.columns))
	total, rest := 0, -1
	for i, c := range t.columns {
		widths[i] = Width(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i].Text))
		}
		total += widths[i] + len(gap)
		if c.Rest {
			rest = i
		}
	}
	total -= len(gap)
	if width > 0 && rest >= 0 && total > width {
		widths[rest] = max(widths[rest]-(total-width), minimumRest)
	}
	return widths
}

const gap = "  "

func (t *Table) line(cells []Cell, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		text := Clip(cell.Text, widths[i])
		pad := strings.Repeat(" ", max(0, widths[i]-Width(text)))
		if cell.Paint != nil {
			text = cell.Paint(text)
		}
		if t.columns[i].Right {
			text = pad + text
		} else if i < len(cells)-1 {
			text += pad
		}
		if i > 0 {
			b.WriteString(gap)
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}
