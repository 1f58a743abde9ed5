package operate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/orders"
	"weir/state"
)

// files looks at the files and folders of the settings of one doctor.
type files struct{ *doctor }

// mostExamined is how large a state may be that is read as a whole. It takes its copy in the folder for
// temporary files.
const mostExamined = 1 << 30

// stateRecords reads the state of a weir that does not run.
func (d files) stateRecords(dir string, at *running) {
	const check = "records"
	size, err := state.Size(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // the first start makes it
	}
	if err == nil && size > mostExamined {
		d.warn(check, "weir run verifies the checksums of its files at each start", "%s has %s MiB: only up to %d MiB are read", dir, cli.Grouped(size>>20), mostExamined>>20)
		return
	}
	if err == nil {
		err = state.Examine(dir, os.TempDir())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, state.ErrLocked) && at == nil:
		d.warn(check, "name the address of that one: --server URL", "a weir runs with %s, but none answers at %s", dir, d.run.O.Listen)
	case errors.Is(err, state.ErrLocked):
		d.ok(check, "a weir runs with %s, and has verified its files at its start", dir)
	case errors.Is(err, state.ErrDamaged):
		d.fail(check, "restore a backup (weir restore), or move the folder away: on Kafka weir then folds the topic again", "%s: %v", dir, err)
	case err != nil:
		d.warn(check, "give the temporary folder room, or run doctor as the user of weir", "%s is not read: %v", dir, err)
	default:
		d.ok(check, "all records and logs in %s can be read", dir)
	}
}

// written looks at the files that weir writes.
func (d files) written() {
	if file := d.run.O.VerdictFile; file != "" {
		d.appended("verdicts", "--verdict-file", file)
	}
	if file := d.run.O.AuditFile; file != "" {
		d.appended("audit", "--audit-file", file)
	}
	if file := d.run.O.OrdersFile; file != "" {
		d.orders(file)
	}
}

// appended looks whether weir can append to a file. A file that is not there yet is made in its folder.
func (d files) appended(check, flag, path string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if d.canCreate(check, flag, path) {
			d.ok(check, "%s is not there yet and can be created", path)
		}
		return
	case err == nil && info.IsDir():
		d.fail(check, "name a file with "+flag, "%s is a folder", path)
		return
	case err == nil && !info.Mode().IsRegular():
		d.ok(check, "%s is no plain file, and is not tried", path)
		return
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		d.fail(check, "let the user that runs weir write there, or name another file with "+flag, "%v", err)
		return
	}
	d.ok(check, "%s can be written to", path)
}

// canCreate looks whether a file can be made in the folder of the path.
func (d files) canCreate(check, flag, path string) bool {
	if err := makeIn(filepath.Dir(path)); err != nil {
		d.fail(check, "create the folder, or name another file with "+flag, "%v", err)
		return false
	}
	return true
}

// makeIn makes a file in a folder and removes it. To ask for the mode of the folder says little: owners,
// groups and mounts decide together.
func makeIn(folder string) error {
	f, err := os.CreateTemp(folder, ".weir-doctor-*")
	if err != nil {
		return err
	}
	_, _ = f.Close(), os.Remove(f.Name())
	return nil
}

// orders reads the file of orders by hand. weir replaces it as a whole, so its folder has to be writable.
func (d files) orders(path string) {
	const check = "orders"
	n, err := orders.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if d.canCreate(check, "--orders-file", path) {
			d.ok(check, "%s is not there yet and can be created", path)
		}
	case err != nil:
		d.fail(check, "weir run would not start: an order that cannot be read may be a stop", "%v", err)
	case d.canCreate(check, "--orders-file", path):
		d.ok(check, "%s can be read and replaced, %s", path, cli.Count(int64(n), "record"))
	}
}

// registry asks the schema registry of the settings.
func (d files) registry(ctx context.Context) {
	const check = "schemas"
	b := d.run.brokers
	if b.schemas.url == "" {
		return
	}
	r, err := b.schemas.registry()
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, min(checkBound, 10*time.Second))
		defer cancel()
		err = r.Reach(limited)
	}
	if err != nil {
		d.fail(check, "check --schema-registry, --schema-registry-user and --schema-registry-password-file; until it answers, records with its schemas wait", "%v", err)
		return
	}
	d.ok(check, "%s: answers as a schema registry", b.schemas.url)
}
