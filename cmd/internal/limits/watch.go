package limits

import (
	"context"

	"weir/cmd/internal/filewatch"
)

// Watch looks at the file when it may have changed, until ctx ends. An error is one of the log.
func (s *Source) Watch(ctx context.Context) error {
	paths := func() []string { return nil }
	if s.o.File != "" {
		paths = func() []string { return []string{s.o.File} }
	}
	return filewatch.Watch(ctx, s.o.Clock, s.o.Logger, s.o.Poll, paths, func() error {
		s.looking.Lock()
		defer s.looking.Unlock()
		// Faults of the file were logged and are in the status. The next look may find it fixed.
		if err := s.look(false); err != nil && !s.harmless(err) {
			return err
		}
		return nil
	})
}
