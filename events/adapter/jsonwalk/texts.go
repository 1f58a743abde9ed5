package jsonwalk

// TextOf reads the object that follows and returns what the string says that is its
// member of this name, the last one if there are several. It is nil where the object
// has none, and where the value is no object.
func (c *Cursor) TextOf(name string) (text []byte) {
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == name {
			text = c.Text()
		} else {
			c.Skip()
		}
	}
	return text
}

// Texts reads a list of blocks, which is what messages and results of tools are made
// of in many protocols, and joins the texts of the blocks, each on lines of its own.
// A block is an object with a string named text; one that has none, such as an image,
// counts as it is. What is no list is skipped and gives nil.
func (c *Cursor) Texts() []byte {
	var all []byte
	for c.MaybeArray(); c.Element(); {
		block := c.Raw()
		if len(all) > 0 {
			all = append(all, '\n')
		}
		all = append(all, textOfBlock(block)...)
	}
	return all
}

func textOfBlock(block []byte) []byte {
	text := block
	c := New(block)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "text" && c.Peek() == '"' {
			text = c.Text()
		} else {
			c.Skip()
		}
	}
	return text
}
