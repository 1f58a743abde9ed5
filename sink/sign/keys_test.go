package sign_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/sink/sign"
)

const (
	one = "0123456789abcdef0123456789abcdef"
	two = "fedcba9876543210fedcba9876543210"
)

func parsed(t *testing.T, text string) sign.Keys {
	t.Helper()
	keys, err := sign.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestVerify(t *testing.T) {
	order := []byte(`{"id":"00000000000000a1-1","action":"halt"}`)
	old, both, fresh := parsed(t, "k1 "+one), parsed(t, "k2 "+two+"\nk1 "+one), parsed(t, "k2 "+two)
	f := func(keys sign.Keys, signature string, want error) {
		t.Helper()
		if err := keys.Verify(order, signature); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", signature, err, want)
		}
	}
	// As openssl dgst -sha256 -hmac makes it.
	const known = "k=k1,v1=7427d017a7686d0c0e2315e40b8ea861a37680a1c53e6c5ed4566d67d9117fed"
	if got := old.Sign(order); got != known {
		t.Errorf("signed %s, want %s", got, known)
	}
	f(old, old.Sign(order), nil)
	f(both, old.Sign(order), nil) // while keys are changed
	f(both, both.Sign(order), nil)
	f(fresh, both.Sign(order), nil) // the first signs
	f(old, both.Sign(order), sign.ErrForged)
	f(fresh, old.Sign(order), sign.ErrForged)
	f(old, "", sign.ErrUnsigned)
	f(nil, old.Sign(order), sign.ErrForged)
	f(old, old.Sign(append(order, ' ')), sign.ErrForged)
	f(old, strings.Replace(old.Sign(order), "k1", "k2", 1), sign.ErrForged)
	for _, bad := range []string{"k1", "k=k1", "k=k1,v1=", "k=k1,v1=zz", ",v1=" + one, "v1=" + one, known[:len(known)-2], known + "00"} {
		f(old, bad, sign.ErrForged)
	}
	if s := sign.Keys(nil).Sign(order); s != "" {
		t.Errorf("signed %q without a key", s)
	}
}

func TestParse(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		keys, err := sign.Parse([]byte(text))
		got := ""
		for _, k := range keys {
			got += k.ID + "=" + string(k.Secret) + " "
		}
		if err != nil {
			got = err.Error()
		}
		if strings.Contains(got, want) && (err == nil || !strings.Contains(got, one[:8])) {
			return
		}
		t.Errorf("%q: %s, want %s", text, got, want)
	}
	f("# keys\n\n a-1.B_ \t"+one+"\r\nb "+two, "a-1.B_="+one+" b="+two)
	f("", "no keys")
	f("# only this\n", "no keys")
	f("a "+one+"\nb", "line 2: want the id")
	f("a "+one+" more", "line 1: want the id")
	f("a,b "+one, "line 1: the id")
	f("a "+one+"\na "+two, "line 2: key a is there twice")
	f("a "+one[:31], "31 characters")
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := sign.Read(path); err == nil {
		t.Error("there is no file, and no error")
	}
	if err := os.WriteFile(path, []byte("a b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sign.Read(path); err == nil || !strings.Contains(err.Error(), path+": line 1") {
		t.Error(err)
	}
}
