package mapped

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/itchyny/gojq"
)

// An expression may double what it has with every step, so steps alone bound no memory. What
// it makes is therefore weighed as it is made, and counts as steps: the syntax tree is changed
// so that values go through functions of weir's own. What only points into the record, such as
// a path, weighs nothing. The weight is that of the value written out, however much of it is
// shared in memory, so that no later function meets more than it can write.
//
// Some functions make more of a small value in one step than fits in memory; what they are
// given is looked at before.

// The names of weir's functions. In jq nothing begins with two underscores.
const (
	weighName   = "__weigh"   // passes on what it is given
	factorsName = "__factors" // the two sides of a multiplication, as a list
	joinName    = "__join"
	placeName   = "__place" // passes on an index, or a path
	shortName   = "__short" // passes on a text that is not too long to search in
)

const (
	nodesPerStep = 4 // of a value that is made
	bytesPerStep = 8 // of a text that is made
	mostPlace    = 1 << 20
	mostSearched = 64 << 10 // of a text: to find all matches takes their number times its length
	mostBits     = 1 << 15  // of a whole number, to multiply which takes more than its length
)

var errLarge = errors.New("the expression makes too much of the record")

// unbounded are functions that are not taken: each may make much of a little, and no field
// needs them.
var unbounded = map[string]bool{"transpose": true, "fromstream": true, "combinations": true}

// pointing are functions whose results are parts of what they are given, or small.
var pointing = map[string]bool{"select": true, "empty": true, "error": true, "recurse": true, "first": true, "last": true, "limit": true, "getpath": true,
	"values": true, "strings": true, "numbers": true, "objects": true, "arrays": true, "scalars": true, "not": true, "length": true, "type": true,
	"test": true, "has": true, "contains": true, "startswith": true, "endswith": true, "any": true, "all": true, "tonumber": true}

// searching are functions that may look for all matches in a text.
var searching = map[string]bool{"match": true, "scan": true, "sub": true, "gsub": true, "splits": true, "capture": true, "split": true}

// paths are functions whose argument says where something is, and makes nothing.
var paths = map[string]bool{"path": true, "paths": true, "del": true, "pick": true}

// through returns q with what it gives going through a function of weir's.
func through(q *gojq.Query, name string) *gojq.Query {
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: calling(name)}
}

func calling(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

// bounded changes a syntax tree so that what it makes is weighed. own are the functions that
// the expression defines itself, of which each part is weighed.
//
// The error names what is not taken.
func bounded(tree reflect.Value, own map[string]bool) error {
	return visit(tree, func(node any) (bool, error) {
		if q, ok := node.(*gojq.Query); ok {
			return false, boundedQuery(q, own)
		}
		return true, nil
	})
}

// boundedQuery changes a query in its place.
func boundedQuery(q *gojq.Query, own map[string]bool) error {
	for _, def := range q.FuncDefs {
		own[def.Name] = true
	}
	assigns := q.Op >= gojq.OpAssign && q.Op <= gojq.OpUpdateAlt
	if assigns {
		if err := boundedPlaces(reflect.ValueOf(q.Left)); err != nil {
			return err
		}
		if err := bounded(reflect.ValueOf(q.FuncDefs), own); err != nil {
			return err
		}
		if err := boundedQuery(q.Right, own); err != nil {
			return err
		}
	} else if f := called(q); f == nil || !paths[f.Name] || own[f.Name] {
		if err := bounded(reflect.ValueOf(*q), own); err != nil {
			return err
		}
	}
	made := assigns || q.Op == gojq.OpAdd
	switch f := called(q); {
	case q.Op == gojq.OpUpdateMul:
		return errors.New("*= may not be used in mappings; write |= (. * x)")
	case q.Op == gojq.OpMul:
		product, err := gojq.Parse(".[0] * .[1]")
		if err != nil {
			return err
		}
		*q = gojq.Query{FuncDefs: q.FuncDefs, Left: calling(factorsName, q.Left, q.Right), Op: gojq.OpPipe, Right: product}
		made = true
	case f == nil:
	case own[f.Name], pointing[f.Name], paths[f.Name], strings.HasPrefix(f.Name, "$"):
	case unbounded[f.Name]:
		return fmt.Errorf("%s may not be used in mappings: it can make far more of a record than there is", f.Name)
	case searching[f.Name] && (f.Name != "split" || len(f.Args) == 2):
		inner := *q
		*q = gojq.Query{Left: calling(shortName), Op: gojq.OpPipe, Right: &inner}
		made = true
	case f.Name == "join":
		f.Name, made = joinName, true
	case f.Name == "setpath" && len(f.Args) == 2:
		f.Args[0], made = through(f.Args[0], placeName), true
	default:
		made = true
	}
	if t := q.Term; t != nil {
		made = made || t.Array != nil || t.Object != nil || t.Str != nil && len(t.Str.Queries) > 0 || t.Format != ""
	}
	if made {
		inner := *q
		*q = *through(&inner, weighName)
	}
	return nil
}

// called is the function that a query calls; nil when it calls none itself.
func called(q *gojq.Query) *gojq.Func {
	if q.Term == nil {
		return nil
	}
	return q.Term.Func
}

// boundedPlaces bounds the indexes in the left side of an assignment: a list is made as long as
// the largest one wants.
func boundedPlaces(tree reflect.Value) error {
	return visit(tree, func(node any) (bool, error) {
		switch v := node.(type) {
		case *gojq.Index:
			for _, at := range []*gojq.Query{v.Start, v.End} {
				if at != nil {
					inner := *at
					*at = *through(&inner, placeName)
				}
			}
			return false, nil
		case *gojq.Func:
			if !pointing[v.Name] || v.Name == "getpath" {
				return false, fmt.Errorf("%s may not stand on the left of an assignment in mappings", v.Name)
			}
		}
		return true, nil
	})
}

// functions are weir's own, which count to left.
func functions(left *int) []gojq.CompilerOption {
	return []gojq.CompilerOption{
		gojq.WithFunction(weighName, 0, 0, func(v any, _ []any) any {
			if !weigh(v, left) {
				return errLarge
			}
			return v
		}),
		gojq.WithFunction(factorsName, 2, 2, func(_ any, xs []any) any {
			for i := range xs {
				s, ok := xs[i].(string)
				n, isNumber := gojq.ToFloat64(xs[1-i])
				if ok && isNumber && float64(len(s))*n/bytesPerStep > float64(*left) {
					return errLarge
				}
			}
			return []any{xs[0], xs[1]}
		}),
		gojq.WithFunction(joinName, 1, 1, func(v any, xs []any) any { return join(v, xs[0], left) }),
		gojq.WithFunction(shortName, 0, 0, func(v any, _ []any) any {
			if text, ok := v.(string); ok && len(text) > mostSearched {
				return fmt.Errorf("a text of more than %d bytes to search in", mostSearched)
			}
			return v
		}),
		gojq.WithFunction(placeName, 0, 0, func(v any, _ []any) any {
			places, ok := v.([]any)
			if !ok {
				places = []any{v}
			}
			for _, p := range places {
				if n, ok := gojq.ToFloat64(p); ok && n > mostPlace {
					return fmt.Errorf("an index of more than %d", mostPlace)
				}
			}
			return v
		}),
	}
}

// weigh takes the weight of a value from left; false when there is not so much.
func weigh(v any, left *int) bool {
	nodes := 0
	var add func(v any) bool
	add = func(v any) bool {
		if nodes++; nodes%nodesPerStep == 0 {
			*left--
		}
		switch v := v.(type) {
		case string:
			*left -= len(v) / bytesPerStep
		case json.Number:
			*left -= len(v) / bytesPerStep
		case *big.Int:
			if v.BitLen() > mostBits {
				return false
			}
			*left -= v.BitLen() / 8 / bytesPerStep
		case []any:
			for _, inner := range v {
				if !add(inner) {
					return false
				}
			}
		case map[string]any:
			for name, inner := range v {
				if *left -= len(name) / bytesPerStep; !add(inner) {
					return false
				}
			}
		}
		return *left >= 0
	}
	return add(v)
}

// join is that of jq, for lists whose texts have room.
func join(v, between any, left *int) any {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("join wants a list, and was given %s", gojq.TypeOf(v))
	}
	words := make([]string, len(list))
	size := 0
	for i, word := range list {
		switch word := word.(type) {
		case nil:
		case string:
			words[i] = word
		case []any, map[string]any:
			return fmt.Errorf("join wants texts, and was given %s", gojq.TypeOf(word))
		default:
			b, err := gojq.Marshal(word)
			if err != nil {
				return err
			}
			words[i] = string(b)
		}
		size += len(words[i])
	}
	text, ok := between.(string)
	if !ok && between != nil {
		return fmt.Errorf("join wants a text between others, and was given %s", gojq.TypeOf(between))
	}
	if (size+len(text)*len(words))/bytesPerStep > *left {
		return errLarge
	}
	return strings.Join(words, text)
}
