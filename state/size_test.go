package state

import "testing"

func TestSize(t *testing.T) {
	memory, err := Open("", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if tables, values := memory.Size(); tables != 0 || values != 0 {
		t.Errorf("a store in memory takes %d and %d bytes of the disk", tables, values)
	}
	if err := memory.Close(); err != nil {
		t.Fatal(err)
	}
	disk, err := Open(t.TempDir(), Options{MemTableSize: minMemTable})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if _, err := disk.Journal(0).Append([]Entry{{Value: make([]byte, 100_000)}}); err != nil {
		t.Fatal(err)
	}
	if tables, _ := disk.Size(); tables < 100_000 {
		t.Errorf("100,000 bytes were written, and take %d", tables)
	}
}
