package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"weir/state"
)

// The state of a killed process is damaged in one place, a flipped bit or a file that
// was cut, and opened. It may be refused, but nothing may be lost without a word, and
// nothing may be read that was never so.
func TestDamagedFiles(t *testing.T) {
	trials := 20
	if s := os.Getenv("WEIR_DAMAGES"); s != "" {
		var err error
		trials, err = strconv.Atoi(s)
		must(t, err)
	}
	rnd := rand.New(rand.NewPCG(seedOf(t), 0))
	image, acked := t.TempDir(), newAcked()
	for range 6 {
		runAndKill(t, rnd, image, 0, acked)
	}
	toldFile := filepath.Join(t.TempDir(), "told")
	text, err := json.Marshal(acked)
	must(t, err)
	must(t, os.WriteFile(toldFile, text, 0o600))
	outcomes := map[string]int{}
	for range trials {
		dir := t.TempDir()
		must(t, copySparse(image, dir))
		folder := filepath.Join(dir, "badger")
		if rnd.IntN(3) == 0 { // of what lies beside the database
			folder = dir
		}
		what, err := damageFile(rnd, folder)
		must(t, err)
		cmd, out := helper(t, "check", dir, "TOLD="+toldFile)
		text, err := io.ReadAll(out)
		must(t, err)
		ended := cmd.Wait()
		outcome, detail, _ := strings.Cut(strings.TrimSpace(string(text)), ": ")
		if ended != nil {
			outcome = fmt.Sprint("process ended, ", ended)
		}
		kind := filepath.Ext(strings.Fields(what)[0])
		if kind == "" {
			kind = strings.Fields(what)[0]
		}
		outcomes[kind+" "+strings.Fields(what)[1]+" -> "+outcome]++
		if outcome == "wrong" || outcome == "lost" || outcome == "" {
			t.Errorf("%s: %s %s", what, outcome, detail)
		}
		must(t, os.RemoveAll(dir))
	}
	for outcome, n := range outcomes {
		t.Logf("%4d %s", n, outcome)
	}
}

// checkDamaged is the helper that opens a damaged state, because some damage makes
// Badger end the process.
func checkDamaged() error {
	text, err := os.ReadFile(os.Getenv("TOLD"))
	if err != nil {
		return err
	}
	acked := newAcked()
	if err := json.Unmarshal(text, acked); err != nil {
		return err
	}
	switch err := acked.check(os.Getenv("DIR"), small()); {
	case err == nil:
		fmt.Println("harmless")
	case errors.Is(err, errWrong):
		fmt.Println("wrong:", err)
	case errors.Is(err, errLost):
		fmt.Println("lost:", err)
	case errors.Is(err, state.ErrDamaged):
		fmt.Println("found:", err)
	default:
		fmt.Println("other error:", err)
	}
	return nil
}

// damageFile flips a bit or cuts a file, and says what it did. Where a file has holes
// there is nothing to damage.
func damageFile(rnd *rand.Rand, dir string) (what string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "LOCK" && !e.IsDir() { // that one says only who had it
			names = append(names, e.Name())
		}
	}
	name := names[rnd.IntN(len(names))]
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := dataSize(f)
	if err != nil || size == 0 {
		return name + " none", err
	}
	at := rnd.Int64N(size)
	if rnd.IntN(2) == 0 {
		return fmt.Sprintf("%s cut at %d of %d", name, at, size), os.Truncate(path, at)
	}
	b := []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		return "", err
	}
	b[0] ^= 1 << rnd.IntN(8)
	_, err = f.WriteAt(b, at)
	return fmt.Sprintf("%s flipped at %d of %d", name, at, size), err
}

// dataSize returns how many bytes of a sparse file come before its first hole.
func dataSize(f *os.File) (int64, error) {
	const seekHole = 4
	n, err := f.Seek(0, seekHole)
	if errors.Is(err, syscall.ENXIO) { // the file is empty
		return 0, nil
	}
	return n, err
}

// copySparse copies a tree of files up to the first hole of each, and keeps their sizes.
func copySparse(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		size, err := dataSize(in)
		if err != nil {
			return err
		}
		out, err := os.Create(target)
		if err != nil {
			return err
		}
		defer out.Close()
		if _, err := io.Copy(out, io.NewSectionReader(in, 0, size)); err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return out.Truncate(info.Size())
	})
}
