package adapter

// Keeper is implemented by adapters that need earlier records to read later ones: spans that are
// held back, or parents of spans to come. It reports how far back they reach. A reader of a log
// can begin again there with a new adapter, and get the same events with the same ids.
type Keeper interface {
	// At says where in its input the record is that is decoded next. Places grow; what
	// they are is the caller's business.
	At(place int64)

	// Oldest returns the place of the oldest record that is needed, and false when none
	// is. It looks at all that is remembered, so it is for now and then, not for every
	// record.
	Oldest() (place int64, ok bool)
}
