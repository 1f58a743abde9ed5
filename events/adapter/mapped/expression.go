package mapped

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/itchyny/gojq"
)

// expression is a jq expression for one field.
//
// Its code counts what it makes, so it is run by one goroutine at a time.
type expression struct {
	field field
	code  *gojq.Code

	mu   *sync.Mutex
	left *int // steps of the run that is under way
}

// clocks are the functions whose results depend on when and where they are called: a
// record must give the same event whenever it is read. The same words may name members
// of the record, and variables.
var clocks = map[string]bool{"now": true, "localtime": true, "strflocaltime": true, "input": true, "inputs": true, "debug": true,
	"stderr": true, "input_line_number": true}

// clock refuses a syntax tree in which one of these functions is called.
func clock(tree reflect.Value) error {
	return visit(tree, func(node any) (bool, error) {
		// Only calls are Funcs: a member of that name is not one.
		if f, ok := node.(*gojq.Func); ok && clocks[f.Name] {
			return false, fmt.Errorf("%s may not be used in mappings: a record has to give the same event whenever it is read", f.Name)
		}
		return true, nil
	})
}

// compile runs when the mapping is read, so that it reports a fault before the first record.
// The error of gojq contains the position in the expression.
func compile(f field, text string) (expression, error) {
	// A text that is not a path was meant as an expression, so the fault is reported as one of either.
	query, err := gojq.Parse(text)
	if err != nil {
		return expression{}, fmt.Errorf("neither a path nor a jq expression: %w", err)
	}
	if err := clock(reflect.ValueOf(query)); err != nil {
		return expression{}, err
	}
	if err := bounded(reflect.ValueOf(query), make(map[string]bool)); err != nil {
		return expression{}, err
	}
	left := new(int)
	code, err := gojq.Compile(query, functions(left)...)
	if err != nil {
		return expression{}, err
	}
	return expression{f, code, new(sync.Mutex), left}, nil
}

// mostDigits is how long a number in a record may be: to reckon with one of a million digits
// takes seconds, and no log has any.
const mostDigits = 1000

// decode reads a record without losing digits of numbers.
// A float64 would round ids that are numbers of more than 15 digits.
func decode(record []byte) (v any, err error) {
	digits, inText := 0, false
	for i := 0; i < len(record); i++ {
		switch b := record[i]; {
		case b == '\\' && inText:
			i++
		case b == '"':
			inText = !inText
		case !inText && b >= '0' && b <= '9':
			if digits++; digits > mostDigits {
				return nil, fmt.Errorf("a number of more than %d digits", mostDigits)
			}
			continue
		}
		digits = 0
	}
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// mostSteps is how many instructions jq may take for one field of one record: an expression over
// some hundred thousand values needs as many.
const mostSteps = 1 << 22

// errEndless is an error of the record, which becomes a dead letter; the reader goes on.
var errEndless = fmt.Errorf("the expression has no result within %d steps: does it end?", mostSteps)

// steps ends an expression that takes too many of them. jq asks Done before each; a bound in time
// would give another event of the same record on a busy machine.
type steps struct {
	context.Context
	left *int
}

var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (s *steps) Done() <-chan struct{} {
	if *s.left--; *s.left >= 0 {
		return nil
	}
	return over
}

func (s *steps) Err() error { return errEndless }

// text returns the first result: what a string says, or JSON; nothing for null
// and where there is no result.
// An error of the expression is an error of the record, and the log goes on.
//
// Further results are not computed. Numbers, lists and objects are written as gojq does, with
// members sorted, so that equal ones have equal hashes.
func (x *expression) text(input any) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*x.left = mostSteps
	result, ok := x.code.RunWithContext(&steps{context.Background(), x.left}, input).Next()
	if !ok {
		return nil, nil
	}
	switch v := result.(type) {
	case error:
		return nil, v
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	}
	return gojq.Marshal(result)
}
