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
	// Max is the widest that the column may be, and lets it be cut to fit the
	// terminal; 0 is any width, and never cut.
	Max int
	// Drop: the column goes when the table is too wide even so, the lowest
	// first; one without any text goes before all others. 0 stays.
	Drop int
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

// minimumRest and minimumColumn are how narrow a Rest column and one with a Max
// get. Chosen: a name is still told from its neighbours.
const (
	minimumRest   = 10
	minimumColumn = 8
)

// Lines returns the head, painted, and the rows. width is the terminal's, into
// which the columns are fitted; 0 is endless.
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

// widths fits the columns into width: first the one that takes the rest gets
// narrower, then the widest of those with a Max, and at last columns go, in the
// order of their Drop. What does not fit even so is left to wrap.
func (t *Table) widths(width int) []int {
	dropped := make([]bool, len(t.columns))
	widths, fits := t.fit(width, dropped)
	if fits {
		return widths
	}
	for i, c := range t.columns {
		dropped[i] = c.Drop > 0 && t.isEmpty(i)
	}
	for widths, fits = t.fit(width, dropped); !fits; widths, fits = t.fit(width, dropped) {
		next := -1
		for i, c := range t.columns {
			if c.Drop > 0 && !dropped[i] && (next < 0 || c.Drop < t.columns[next].Drop) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		dropped[next] = true
	}
	return widths
}

// fit is widths without the dropped columns, whose width is -1.
func (t *Table) fit(width int, dropped []bool) (widths []int, fits bool) {
	widths = make([]int, len(t.columns))
	over, rest := -len(gap)-width, -1
	for i, c := range t.columns {
		if dropped[i] {
			widths[i] = -1
			continue
		}
		widths[i] = Width(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i].Text))
		}
		over += widths[i] + len(gap)
		if c.Rest {
			rest = i
		}
	}
	if width <= 0 || over <= 0 {
		return widths, true
	}
	if rest >= 0 {
		cut := min(over, max(0, widths[rest]-minimumRest))
		widths[rest] -= cut
		over -= cut
	}
	for ; over > 0; over-- {
		widest := -1
		for i, c := range t.columns {
			if c.Max > 0 && widths[i] > max(minimumColumn, Width(c.Title)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}

func (t *Table) isEmpty(column int) bool {
	for _, row := range t.rows {
		if row[column].Text != "" {
			return false
		}
	}
	return true
}

const gap = "  "

func (t *Table) line(cells []Cell, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if widths[i] < 0 {
			continue
		}
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
		if b.Len() > 0 {
			b.WriteString(gap)
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}
