package plot

import (
	"fmt"
	"strings"
)

// Colour is the colour of a series, by its meaning. The zero value is
// [Reference].
type Colour int

// The colours. Ours is the strongest. The peers' come from a random search for the
// greatest least distance between any two, as seen with each kind of colour vision
// (colour_test.go computes it); no chart relies on them alone, since each curve
// has its name beside it.
const (
	Reference Colour = iota
	Ours
	PeerA
	PeerB
	PeerC
	PeerD
	PeerE
	colours
)

// palette has the value of each colour on a light and on a dark page. They are also
// the colours of text, so each has a contrast of 4.5 to its page (WCAG 2, 1.4.3).
var palette = [colours]struct{ light, dark string }{
	Reference: {"#6e7781", "#8b949e"},
	Ours:      {"#0550ae", "#58a6ff"},
	PeerA:     {"#856c22", "#cc965a"},
	PeerB:     {"#1a8647", "#aedfc5"},
	PeerC:     {"#993e5b", "#dc32b3"},
	PeerD:     {"#50196c", "#ceaddd"},
	PeerE:     {"#5c4823", "#e1e0a7"},
}

// The rest of a page.
var (
	pageColour = [2]string{"#ffffff", "#0d1117"}
	edgeColour = [2]string{"#d8dee4", "#30363d"}
	gridColour = [2]string{"#e6eaef", "#21262d"}
	textColour = [2]string{"#1f2328", "#e6edf3"}
	softColour = [2]string{"#59636e", "#9198a1"}
	// quietColour fills the peers' bars. It has a contrast of 1.6 only, as no text
	// is written in it and each bar has its figure beside it.
	quietColour = [2]string{"#bcc5ce", "#4d565f"}
)

const fonts = `system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",Helvetica,Arial,sans-serif`

// class is the name of a colour in the styles.
func (c Colour) class() string { return fmt.Sprintf("c%d", int(c)) }

// styles is the style sheet of every picture.
func styles() string {
	var b strings.Builder
	fmt.Fprintf(&b, `text{font:%gpx %s}.title{font-size:%gpx;font-weight:600}.strong{font-weight:600}`, textSize, fonts, titleSize)
	b.WriteString(`.num{font-variant-numeric:tabular-nums}`)
	b.WriteString(`.curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.curve.strong{stroke-width:3.5}`)
	b.WriteString(`.dashed{stroke-dasharray:2 6}.band{stroke:none;fill-opacity:.16}.lead{stroke-width:1;stroke-opacity:.6}.whisker,.clear{fill:none;stroke-width:1.5}.clear{stroke-width:4.5}.hollow{fill:none;stroke-width:1.5;stroke-dasharray:4 3}.frame{stroke-width:1}`)
	theme(&b, 0)
	b.WriteString("@media(prefers-color-scheme:dark){")
	theme(&b, 1)
	b.WriteString("}")
	return b.String()
}

// theme writes the colours of the light (0) or the dark (1) page.
func theme(b *strings.Builder, mode int) {
	fmt.Fprintf(b, `.page{fill:%s;stroke:%s}.grid,.frame{stroke:%s}.axis,.whisker{stroke:%s}text{fill:%s}.soft{fill:%s}.clear{stroke:%s}.quiet{fill:%s}.hollow{stroke:%[6]s}`,
		pageColour[mode], edgeColour[mode], gridColour[mode], textColour[mode], textColour[mode], softColour[mode], pageColour[mode], quietColour[mode])
	for i, p := range palette {
		value := p.light
		if mode == 1 {
			value = p.dark
		}
		c := Colour(i).class()
		fmt.Fprintf(b, `.curve.%[1]s,.lead.%[1]s{stroke:%[2]s}text.%[1]s,.mark.%[1]s,.band.%[1]s{fill:%[2]s}`, c, value)
	}
}
