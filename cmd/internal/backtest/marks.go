package backtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"weir/events"
)

// What a person says of a stop: Right, the flow ran away; Wrong, it was honest work.
const (
	Right = "right"
	Wrong = "wrong"
)

// Marks says of flows, by their ids, what a person said of them last.
type Marks map[string]string

// Mark is one line of a file of marks.
//
// Only Flow and Mark are used; the rest is for people who read the file later.
type Mark struct {
	Flow   string    `json:"flow"`
	Mark   string    `json:"mark"` // right or wrong
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Line returns the mark as a line of the file.
//
// It ends with a line end, so that it can be appended as it is.
func (m *Mark) Line() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic("backtest: " + err.Error()) // texts and a time
	}
	return append(b, '\n')
}

// ListMarks reads a file of marks, one JSON object a line.
//
// They are in the order of the file. Empty lines are passed over, since people edit it; any
// other bad line refuses the whole file with its number.
func ListMarks(r io.Reader) (list []Mark, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, events.MaxEventBytes)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var x Mark
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := x.Validate(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, x)
	}
	return list, lines.Err()
}

// ReadMarks reads a file of marks. Of several marks of a flow the last one counts.
//
// It never returns nil marks, and with an error none that are to be used.
func ReadMarks(r io.Reader) (Marks, error) {
	list, err := ListMarks(r)
	m := make(Marks, len(list))
	for i := range list {
		m[list[i].Flow] = list[i].Mark
	}
	return m, err
}

// Validate says what is wrong with a mark.
//
// It is asked before a mark is written and after one is read, so nothing gets into a file
// that is refused from then on.
func (m *Mark) Validate() error {
	switch {
	case m.Flow == "" || len(m.Flow) > events.MaxID:
		return errors.New("flow is missing, or too long")
	case m.Mark != Right && m.Mark != Wrong:
		return fmt.Errorf("mark is %q; want right or wrong", m.Mark)
	}
	return nil
}

// Broken lists the flows that are marked wrong and would be stopped again, and those
// marked right that would not.
//
// Marks of flows that are not in the log are neither. Both lists are sorted, as marks are a
// map.
func (t *Trial) Broken(marks Marks) (again, missed []string) {
	for id, mark := range marks {
		f := t.flows[id]
		switch {
		case f == nil:
		case mark == Wrong && f.Stopped != nil:
			again = append(again, id)
		case mark == Right && f.Stopped == nil:
			missed = append(missed, id)
		}
	}
	slices.Sort(again)
	slices.Sort(missed)
	return again, missed
}

// Unknown counts the marks of flows that are not in the log.
func (t *Trial) Unknown(marks Marks) (n int) {
	for id := range marks {
		if t.flows[id] == nil {
			n++
		}
	}
	return n
}

// AppendMark adds a line to a file of marks. Each mark is one write to a file opened for
// appending, so several people may mark at the same time; no line is ever changed, and the last
// mark of a flow counts.
func AppendMark(name string, m *Mark) (err error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// What was written may turn out not to be there only when the file is closed.
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(m.Line())
	return err
}

// CopyMarks writes a file of marks to w, and nothing if there is no file yet.
func CopyMarks(w io.Writer, name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
