package adapter

// Alias is a field that a source names in several ways, and how far one of the names is
// before the least preferred one, which has 1.
//
// Where a record has several of the names, the one with the highest rank counts, in whatever
// order they come.
type Alias[F ~uint8] struct {
	Field F
	Rank  uint8
}

// Aliases returns what each name means. The names of a field stand at its place, the one
// that is preferred first.
func Aliases[F ~uint8](names [][]string) map[string]Alias[F] {
	m := map[string]Alias[F]{}
	for f, of := range names {
		for i, name := range of {
			m[name] = Alias[F]{F(f), uint8(len(of) - i)}
		}
	}
	return m
}
