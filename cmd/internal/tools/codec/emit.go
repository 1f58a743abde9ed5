package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// writer collects the statements of one function.
type writer struct {
	bytes.Buffer
	rec   *record
	value string // what fields are fields of
	inner bool   // within a block, where h is the head
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// path is the expression of a field.
func (w *writer) path(field string) string {
	if field == "" {
		return w.value
	}
	return w.value + "." + field
}

// fill replaces the placeholders of a codec.
func fill(text, value, bytes string, at string) string {
	part := fmt.Sprintf("%s[%s:]", bytes, at)
	if at == "0" {
		part = bytes
	}
	return strings.NewReplacer("$", value, "@", part, "#", fmt.Sprintf("%s[%s]", bytes, at)).Replace(text)
}

// sizeOf is the number of bytes of the rows.
func sizeOf(rows []row) (n int) {
	for _, r := range rows {
		n += r.size
	}
	return n
}

// rows writes the statements of rows of fixed size, whose bytes have the name.
func (w *writer) rows(rows []row, name string, reads bool) {
	at := 0
	for _, r := range rows {
		text := r.codec.put
		if reads {
			text = r.codec.get
		}
		if text != "" {
			w.line("%s", fill(text, w.path(r.field), name, fmt.Sprint(at)))
		}
		at += r.size
	}
}

func (p fixed) put(w *writer) {
	n := sizeOf(p)
	if w.inner {
		w.line("var e []byte\nb, e = record.Room(b, %d)\n_ = e[%d]", n, n-1)
		w.rows(p, "e", false)
		return
	}
	w.line("b, h := record.Room(b, %d)\n_ = h[%d]", n, n-1)
	w.rows(p, "h", false)
}

func (p fixed) get(w *writer) {
	n, name := sizeOf(p), "h"
	switch {
	case w.inner:
		name = "e"
		w.line("e := d.Take(%d)[:%d]", n, n)
	case w.rec.headTaken():
		w.line("_ = h[%sHead-1]", strings.ToLower(w.rec.typ))
	default:
		w.line("h := d.Take(%d)[:%d]", n, n)
	}
	w.rows(p, name, true)
}

func (r row) put(w *writer) { w.line("%s", fill(r.codec.put, w.path(r.field), "", "0")) }
func (r row) get(w *writer) { w.line("%s", fill(r.codec.get, w.path(r.field), "", "0")) }

func (p behind) put(w *writer) {
	w.block(fmt.Sprintf("if %s&%s != 0", p.in, p.bit), p.parts, part.put)
}

func (p behind) get(w *writer) {
	at := w.rec.bitsOf(p.in)
	parts := p.parts
	if at.clears {
		parts = append([]part{raw{getText: at.read + " &^= " + p.bit}}, parts...)
	}
	w.block(fmt.Sprintf("if %s&%s != 0", at.where(), p.bit), parts, part.get)
}

func (p when) put(w *writer) { w.block("if "+p.putIf, p.parts, part.put) }
func (p when) get(w *writer) { w.block("if "+p.getIf, p.parts, part.get) }

// block writes the parts behind a condition, if there is anything to write.
func (w *writer) block(head string, parts []part, f func(part, *writer)) {
	inner := writer{rec: w.rec, value: w.value, inner: true}
	for _, p := range parts {
		f(p, &inner)
	}
	if inner.Len() > 0 {
		w.line("%s {\n%s}", head, inner.String())
	}
}

func (p further) put(w *writer) { w.line("if %[1]s != 0 {\nb = append(b, %[1]s)\n}", p.in) }
func (p further) get(w *writer) {
	w.line("%s := readMore(d, %s, %s)", p.in, p.has, strings.Join(w.rec.known(p.in), "|"))
}

func (p raw) put(w *writer) {
	if p.putText != "" {
		w.line("%s", p.putText)
	}
}

func (p raw) get(w *writer) {
	if p.getText != "" {
		w.line("%s", p.getText)
	}
}

func (p unless) put(w *writer) { w.line("if %s {\nreturn b\n}", p.putIf) }
func (p unless) get(w *writer) { w.line("if %s {\n%s\nreturn\n}", p.getIf, p.instead) }

// element has w write about the elements of the list.
func (w *writer) element(p list, each func()) {
	was := w.value
	if w.value = p.v; p.v == "" {
		w.value = was + "." + p.field + "[i]"
	}
	each()
	w.value = was
}

// pointer names the element at i.
func (p list) pointer(w *writer) {
	if p.v != "" {
		w.line("%s := &%s[i]", p.v, w.path(p.field))
	}
}

// length is the expression by which decoding knows how many elements follow.
func (p list) length(w *writer) string {
	place := "d.Take(1)[0]"
	if at, ok := w.rec.placeOf(p.field); ok && w.value == w.rec.v {
		place = fmt.Sprintf("h[%d]", at)
	}
	return fmt.Sprintf("d.Most(%s, %s)", place, p.limit)
}

func (p list) put(w *writer) {
	all := w.path(p.field)
	if !strings.Contains(p.length(w), "h[") {
		w.line("b = append(b, byte(len(%s)))", all)
	}
	if p.fixed == nil {
		w.line("for i := range %s {", all)
		if p.of != nil {
			w.line("b = %s[i].encode(%s)", all, p.of.args("b", p.of.putTakes))
		} else {
			p.pointer(w)
			w.element(p, func() {
				for _, x := range p.parts {
					x.put(w)
				}
			})
		}
		w.line("}")
		return
	}
	size := fmt.Sprint(sizeOf(p.fixed))
	w.line("if l := %s; len(l) > 0 {", all)
	if p.columns != nil {
		w.line("size := %s", size)
		size = "size"
		p.offsets(w, false)
	}
	w.line("var e []byte\nb, e = record.Room(b, %s*len(l))", size)
	p.loop(w, size, func() {
		w.rows(p.fixed, "x", false)
		for _, c := range p.columns {
			w.line("if %s&%s != 0 {\n%s\n}", c.in, c.bit, fill(c.codec.put, w.path(c.field), "e", c.field+"At"))
		}
	})
}

// loop writes a loop over the elements, whose fixed part is x.
func (p list) loop(w *writer, size string, each func()) {
	w.line("for i := range l {\nx := e[:%d]", sizeOf(p.fixed))
	was := w.value
	if w.value = p.v; p.v == "" {
		w.value = "l[i]"
	} else {
		w.line("%s := &l[i]", p.v)
	}
	each()
	w.value = was
	w.line("e = e[%s:]\n}\n}", size)
}

// offsets computes where each column stands, and the size of an element.
func (p list) offsets(w *writer, reads bool) {
	for _, c := range p.columns {
		in := c.in
		if reads {
			in = w.rec.bitsOf(c.in).where()
		}
		w.line("%sAt := size\nif %s&%s != 0 {\nsize += %d\n}", c.field, in, c.bit, c.size)
	}
}

func (p list) get(w *writer) {
	all := w.path(p.field)
	if p.fixed == nil {
		i := "i := "
		if p.v == "" {
			i = ""
		}
		w.line("for %srange %s {", i, p.length(w))
		switch {
		case p.of != nil:
			w.line("%s.decode(%s)", p.add, p.of.args("d", p.of.getTakes))
		case p.v == "":
			w.line("%[1]s = append(%[1]s, %[2]s)", all, p.add)
		default:
			w.line("%[1]s = append(%[1]s, %[2]s)\n%[3]s := &%[1]s[i]", all, p.add, p.v)
			w.element(p, func() {
				for _, x := range p.parts {
					x.get(w)
				}
			})
		}
		w.line("}")
		return
	}
	size := fmt.Sprint(sizeOf(p.fixed))
	w.line("if n := %s; n > 0 {", p.length(w))
	if p.columns != nil {
		w.line("size := %s", size)
		size = "size"
		p.offsets(w, true)
	}
	w.line("l := record.Sized(%[1]s, n)\n%[1]s = l\ne := d.Take(%[2]s*n)", all, size)
	p.loop(w, size, func() {
		w.rows(p.fixed, "x", true)
		for _, c := range p.columns {
			w.line("%s = %s", w.path(c.field), c.absent)
			w.line("if %s&%s != 0 {\n%s\n}", w.rec.bitsOf(c.in).where(), c.bit, fill(c.codec.get, w.path(c.field), "e", c.field+"At"))
		}
	})
}

// where is the expression by which decoding reads the bits.
func (b bits) where() string {
	if b.read == "" || b.name == "has" {
		return b.name
	}
	return b.read
}

func (r *record) bitsOf(name string) bits {
	for _, b := range r.bits {
		if b.name == name {
			return b
		}
	}
	panic(r.typ + " has no bits " + name)
}

// headTaken reports whether the caller of decode has taken the head, to look at its version.
func (r *record) headTaken() bool { return strings.Contains(r.getTakes, "h []byte") }

// head is the number of bytes of the fixed fields.
func (r *record) head() (n int) {
	r.parts(func(p part) {
		if f, ok := p.(fixed); ok && n == 0 {
			n = sizeOf(f)
		}
	})
	return n
}

// args is the list of arguments for parameters as they are declared. The clock of the record is passed under its name.
func (r *record) args(first, takes string) string {
	out := []string{first}
	for _, p := range strings.Split(takes, ",") {
		if name := strings.Fields(p); len(name) > 0 {
			out = append(out, name[0])
		}
	}
	return strings.Join(out, ", ")
}

// parts calls f with each part of the record, also with those behind bits.
func (r *record) parts(f func(part)) {
	var all func([]part)
	all = func(parts []part) {
		for _, p := range parts {
			f(p)
			switch x := p.(type) {
			case behind:
				all(x.parts)
			case when:
				all(x.parts)
			}
		}
	}
	for _, s := range r.sections {
		all(s.parts)
	}
}

// placeOf is where the length of the list stands in the head.
func (r *record) placeOf(field string) (place int, ok bool) {
	r.parts(func(p part) {
		if head, is := p.(fixed); is && !ok {
			at := 0
			for _, x := range head {
				if x.field == field && x.codec.get == "" {
					place, ok = at, true
				}
				at += x.size
			}
		}
	})
	return place, ok
}

// announced calls f with each bit of the record and when it is set.
func (r *record) announced(f func(in, bit, when string)) {
	r.parts(func(p part) {
		switch x := p.(type) {
		case behind:
			if x.when != "" {
				f(x.in, x.bit, x.when)
			}
		case list:
			for _, c := range x.columns {
				f(c.in, c.bit, c.when)
			}
		}
	})
}

// known lists the bits of a byte.
func (r *record) known(name string) (out []string) {
	r.announced(func(in, bit, _ string) {
		if in == name {
			out = append(out, bit)
		}
	})
	return out
}

// function writes a function and its comment. Parameters and locals that the body does not use are left out.
func (r *record) function(w *bytes.Buffer, doc, head string, params []string, result string, locals []local, body string) (args string) {
	used := func(name, in string) bool { return regexp.MustCompile(`(^|[^.\w])` + name + `\b`).MatchString(in) }
	before := ""
	for _, l := range locals {
		if used(l.name, body) {
			before += l.name + " := " + l.expr + "\n"
		}
	}
	var keep []string
	for _, p := range params {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		if name := strings.Fields(p)[0]; name == "b" || name == "d" || head == "encode" || head == "decode" || used(name, before+body) {
			keep = append(keep, p)
			args += ", " + name
		}
	}
	value := fmt.Sprintf("%s *%s", r.v, r.typ)
	if head == "encode" || head == "decode" {
		fmt.Fprintf(w, "\n// %s\nfunc (%s) %s(%s) %s {\n%s%s}\n", doc, value, head, strings.Join(keep, ", "), result, before, body)
	} else {
		fmt.Fprintf(w, "\n// %s\nfunc %s(%s) %s {\n%s%s}\n", doc, head, strings.Join(append([]string{value}, keep...), ", "), result, before, body)
	}
	return strings.TrimPrefix(args, ", ")
}

func (p each) put(w *writer) { p.walk(w, part.put) }
func (p each) get(w *writer) { p.walk(w, part.get) }

func (p each) walk(w *writer, f func(part, *writer)) {
	l, inner := list{field: p.field, v: p.v}, writer{rec: w.rec, value: w.value}
	inner.element(l, func() {
		for _, x := range p.parts {
			f(x, &inner)
		}
	})
	if inner.Len() > 0 {
		w.line("for i := range %s {", w.path(p.field))
		l.pointer(w)
		w.line("%s}", inner.String())
	}
}

// write writes the functions of the record. Only encode, decode and AtMost are methods.
func (r *record) write(b *bytes.Buffer) {
	if r.headTaken() {
		fmt.Fprintf(b, "\n// %[1]sHead is the number of bytes of the head.\nconst %[1]sHead = %[2]d\n", strings.ToLower(r.typ), r.head())
	}
	var put, get writer
	put.rec, put.value, get.rec, get.value = r, r.v, r, r.v
	putEnv := append([]string{"b []byte"}, strings.Split(r.putTakes, ",")...)
	getEnv := append([]string{"d *record.Reader", "h []byte"}, strings.Split(strings.Replace(r.getTakes, "h []byte", "", 1), ",")...)
	for _, x := range r.bits {
		if r.known(x.name) == nil {
			continue
		}
		if x.start != "" {
			put.line("%s := %s", x.name, x.start)
		} else {
			put.line("var %s %s", x.name, x.typ)
		}
		putEnv = append(putEnv, x.name+" "+x.typ)
		if x.read == "" {
			getEnv = append(getEnv, x.name+" "+x.typ)
		}
	}
	r.announced(func(in, bit, when string) { put.line("if %s {\n%s |= %s\n}", when, in, bit) })
	if r.before != "" {
		put.line("%s", r.before)
		putEnv = append(putEnv, "version byte")
	}
	for _, s := range r.sections {
		if s.name == "" {
			for _, p := range s.parts {
				p.put(&put)
				p.get(&get)
			}
			continue
		}
		inner, outer := writer{rec: r, value: r.v}, writer{rec: r, value: r.v}
		for _, p := range s.parts {
			p.put(&inner)
			p.get(&outer)
		}
		name := strings.ToUpper(r.typ[:1]) + r.typ[1:] + s.name
		args := r.function(b, "put"+name+" writes "+s.doc+".", "put"+name, putEnv, "[]byte", r.putLocals, inner.String()+"return b\n")
		put.line("b = put%s(%s, %s)", name, r.v, args)
		args = r.function(b, "get"+name+" reads "+s.doc+".", "get"+name, getEnv, "", r.locals, outer.String())
		get.line("get%s(%s, %s)", name, r.v, args)
	}
	put.line("return b")
	r.function(b, "encode writes "+r.doc+".", "encode", putEnv[:1+strings.Count(r.putTakes+",", ",")], "[]byte", r.putLocals, put.String())
	getEnv = []string{"d *record.Reader"}
	locals := []local(nil)
	if r.headTaken() {
		getEnv, locals = append(getEnv, "h []byte"), r.locals
	}
	getEnv = append(getEnv, strings.Split(strings.Replace(r.getTakes, "h []byte", "", 1), ",")...)
	r.function(b, "decode reads "+r.doc+", into a value that is empty but for the memory of its slices.", "decode", getEnv, "", locals, get.String())
	if r.bound {
		r.writeBound(b)
	}
}

// writeBound writes AtMost.
func (r *record) writeBound(b *bytes.Buffer) {
	m := bound{rec: r, value: r.v}
	for _, s := range r.sections {
		for _, p := range s.parts {
			p.most(&m)
		}
	}
	fmt.Fprintf(b, "\n// AtMost returns how many bytes AppendBinary writes at most, with each part at its longest, in a\n"+
		"// fraction of its time. While that is no more than MaxRecord, AppendBinary changes nothing.\nfunc (%s *%s) AtMost() int {\nn := %s\n%sreturn n\n}\n", r.v, r.typ, m.sum(), m.loops.String())
}

// bound adds up what a value takes at most.
type bound struct {
	rec   *record
	value string
	n     int
	terms []string
	loops bytes.Buffer
}

func (m *bound) add(c codec, field string) {
	m.n += c.size
	if c.len != "" {
		value := m.value
		if field != "" {
			value += "." + field
		}
		m.terms = append(m.terms, strings.ReplaceAll(c.len, "$", value))
	}
}

func (m *bound) sum() string {
	return strings.Join(append([]string{fmt.Sprint(m.n)}, m.terms...), " + ")
}

func (p fixed) most(m *bound) {
	for _, r := range p {
		r.most(m)
	}
}
func (r row) most(m *bound)     { m.add(r.codec, r.field) }
func (p further) most(m *bound) { m.n++ }
func (p raw) most(m *bound)     { m.add(codec{size: p.size, len: p.len}, "") }
func (p unless) most(*bound)    {}
func (p behind) most(m *bound) {
	for _, x := range p.parts {
		x.most(m)
	}
}
func (p when) most(m *bound) {
	for _, x := range p.parts {
		x.most(m)
	}
}
func (p each) most(m *bound) { list{field: p.field, v: p.v, parts: p.parts}.elements(m, m.rec) }

func (p list) most(m *bound) {
	if _, ok := m.rec.placeOf(p.field); !ok || m.value != m.rec.v {
		m.n++
	}
	p.elements(m, m.rec)
}

// elements adds what the elements of a list take: the number of them times a size, or the sum over a loop.
func (p list) elements(m *bound, rec *record) {
	all := m.value + "." + p.field
	one := bound{rec: rec, value: p.v}
	if p.v == "" {
		one.value = "l[i]"
	}
	parts := p.parts
	if p.of != nil {
		one.rec, one.value, parts = p.of, p.of.v, nil
		for _, s := range p.of.sections {
			parts = append(parts, s.parts...)
		}
	}
	fixed(p.fixed).most(&one)
	for _, c := range p.columns {
		one.n += c.size
	}
	for _, x := range parts {
		x.most(&one)
	}
	switch {
	case one.terms == nil && one.n == 0:
		return
	case one.terms == nil:
		m.terms = append(m.terms, fmt.Sprintf("%d*len(%s)", one.n, all))
		return
	}
	if p.v == "" && p.of == nil {
		fmt.Fprintf(&m.loops, "for _, x := range %s {\nn += %s\n}\n", all, strings.ReplaceAll(one.sum(), "l[i]", "x"))
		return
	}
	fmt.Fprintf(&m.loops, "for l, i := %s, 0; i < len(l); i++ {\n%s := &l[i]\nn += %s\n%s}\n", all, one.value, one.sum(), one.loops.String())
}
