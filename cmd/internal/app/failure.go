package app

import (
	"log/slog"
	"sync"
)

// failure is why weir cannot go on. Any goroutine may use it.
type failure struct {
	logger *slog.Logger
	once   sync.Once
	// err is written before done is closed, and read only after that.
	done chan struct{}
	err  error
}

// Fail ends the app with an error that it cannot go on from: it closes Done.
// The first one counts; what fails after that is mostly its consequence. It ends nothing by
// itself and may be called by any goroutine.
func (f *failure) Fail(err error) {
	f.once.Do(func() {
		f.err = err
		f.logger.Error("weir cannot go on", "error", err)
		close(f.done)
	})
}

// Done is closed when something failed that weir cannot go on from. The owner calls
// Stop, then Err, and ends the process.
func (f *failure) Done() <-chan struct{} { return f.done }

// Err says what closed Done; nil while it is open.
func (f *failure) Err() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}
