package mapped

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/itchyny/gojq"
)

// expression is a jq expression for one field.
type expression struct {
	field field
	code  *gojq.Code
}

// clocks are the functions whose results depend on when and where they are called: a
// record must give the same event whenever it is read.
var clocks = regexp.MustCompile(`\b(now|localtime|strflocaltime|input|inputs|debug|stderr|input_line_number)\b`)

func compile(f field, text string) (expression, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return expression{}, fmt.Errorf("neither a path nor a jq expression: %w", err)
	}
	if name := clocks.FindString(query.String()); name != "" {
		return expression{}, fmt.Errorf("%s is not there: a record gives the same event whenever it is read", name)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return expression{}, err
	}
	return expression{f, code}, nil
}

// decode reads a record without losing digits of numbers.
func decode(record []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// text returns the first result: what a string says, or JSON; nothing for null
// and where there is no result.
func (x *expression) text(input any) ([]byte, error) {
	result, ok := x.code.Run(input).Next()
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
