package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// Codecs, as a batch numbers them.
//
// They are the lowest three bits of a batch's attributes.
const (
	codecNone   = 0
	codecGzip   = 1
	codecSnappy = 2
	codecLz4    = 3
	codecZstd   = 4
)

// unpacker undoes the compression of batches, into memory that it uses again, and stops
// at its limit: a batch of a few kilobytes may unpack to gigabytes.
//
// limit is of one batch, in bytes; what lies in memory at once is the caller's to bound, by
// Unpacked.
type unpacker struct {
	limit int
	// Several batches are unpacked one behind the other, as their records are given together.
	block []byte // what is unpacked until reset
	total int
	// The decoders of zstd are kept, since making one costs more than many batches.
	zstd *zstd.Decoder
	in   bytes.Reader
}

// reset gives what was unpacked free to be overwritten. The next block is as large as
// was needed until now, but not above keep bytes.
//
// So memory follows what daily batches need: it grows by a quarter more than was used, and
// what one huge batch took is given back.
func (u *unpacker) reset(keep int) {
	switch need := u.total + u.total/4; {
	case cap(u.block) > keep:
		u.block = nil
	case u.total > cap(u.block) && need <= keep:
		u.block = make([]byte, 0, need)
	}
	u.total, u.block = 0, u.block[:0]
}

// unpack returns the unpacked bytes, good until reset. It fails with ErrTooLarge when
// they are more than the limit.
//
// What is not compressed is returned as it is and aliases packed.
func (u *unpacker) unpack(codec int8, packed []byte) ([]byte, error) {
	if codec == codecNone {
		return packed, nil
	}
	// What is behind the block is free. An append beyond its capacity moves only what it
	// has appended, and what was given out before stays where it is.
	dst := u.block[len(u.block):]
	dst, err := u.append(dst[:0:cap(dst)], codec, packed)
	if err != nil {
		return nil, err
	}
	u.total += len(dst)
	// It is asked by address whether dst still lies behind the block. When it outgrew it, the
	// new memory becomes the block, and the old one lives on in the records that refer to it.
	if used := len(u.block); cap(dst) > 0 && cap(u.block)-used == cap(dst) && &u.block[:used+1][used] == &dst[:1][0] {
		u.block = u.block[:used+len(dst)]
	} else {
		u.block = dst
	}
	// Capped, so that an append does not write into the next batch.
	return dst[:len(dst):len(dst)], nil
}

// tooLarge names the limit, so that a person can raise it or reduce the producer's batches.
func (u *unpacker) tooLarge() error { return fmt.Errorf("%w of %d bytes", ErrTooLarge, u.limit) }

// append adds the content of packed to dst. A codec's own error carries its name, because it is
// most often a producer's fault.
func (u *unpacker) append(dst []byte, codec int8, packed []byte) ([]byte, error) {
	switch codec {
	case codecGzip:
		return u.stream(dst, compress.Gzip, packed)
	case codecSnappy:
		return u.snappy(dst, packed)
	case codecLz4:
		return u.stream(dst, compress.Lz4, packed)
	case codecZstd:
		if u.zstd == nil {
			// One goroutine for each Reader is enough; the decoder's own bound stops a bomb
			// while it unpacks.
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(u.limit)))
			if err != nil {
				return nil, fmt.Errorf("zstd: %w", err)
			}
			u.zstd = d
		}
		dst, err := u.zstd.DecodeAll(packed, dst)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return nil, u.tooLarge()
		}
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return dst, nil
	}
	return nil, fmt.Errorf("its compression has the unknown number %d", codec)
}

// stream unpacks by a codec of the library.
//
// The limit is looked at after each read, so at most one growth of memory more than it is ever
// taken.
func (u *unpacker) stream(dst []byte, codec compress.Compression, packed []byte) ([]byte, error) {
	u.in.Reset(packed)
	r := codec.Codec().NewReader(&u.in)
	defer r.Close()
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(4*len(packed), 4<<10))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > u.limit:
			return nil, u.tooLarge()
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", codec, err)
		}
	}
}

// xerial is how the head of the framed form begins that Java writes.
//
// The head goes on with two numbers of versions, which all writers set alike.
const xerial = "\x82SNAPPY\x00"

// snappy unpacks one block, or the framed blocks that Java and others write.
func (u *unpacker) snappy(dst, packed []byte) ([]byte, error) {
	const head = 16
	if len(packed) < head || string(packed[:len(xerial)]) != xerial {
		return u.snappyBlock(dst, packed)
	}
	for rest := packed[head:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, errors.New("snappy: cut off")
		}
		n := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(n) > uint64(len(rest)) {
			return nil, errors.New("snappy: cut off")
		}
		var err error
		if dst, err = u.snappyBlock(dst, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return dst, nil
}

// snappyBlock knows the length before it unpacks, so a block that is too large costs nothing.
func (u *unpacker) snappyBlock(dst, packed []byte) ([]byte, error) {
	n, err := s2.DecodedLen(packed)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	if n > u.limit-len(dst) {
		return nil, u.tooLarge()
	}
	dst = slices.Grow(dst, n)
	if _, err := s2.Decode(dst[len(dst):len(dst)+n], packed); err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	return dst[:len(dst)+n], nil
}

// close ends the decoder.
//
// It may be used again: the next batch makes what it needs.
func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
		u.zstd = nil
	}
	u.block = nil
}
