package checkpoint

// places says in which loaded shard each tensor is found. Where the index and
// every header agree to the letter, as they do in a sound model, the index is
// that table already; otherwise a table is made from the headers.
type places struct {
	agreed *Index
	shards []int32          // with agreed: a shard's number for each of the index's files
	all    map[string]int32 // otherwise
}

func findPlaces(x *Index, shards []*Shard) places {
	if p, ok := agree(x, shards); ok {
		return p
	}
	n := 0
	for _, s := range shards {
		n += s.Len()
	}
	p := places{all: make(map[string]int32, n)}
	for i, s := range shards {
		for name := range s.Names() {
			p.all[name] = int32(i) // of duplicates, the last in natural order
		}
	}
	return p
}

// agree reports whether every tensor is where the index says and nowhere else. A
// header holds a name once, so if there are as many tensors as names in the
// index, and each is in the file that the index gives, there are no others.
func agree(x *Index, shards []*Shard) (places, bool) {
	if x == nil {
		return places{}, false
	}
	n, number := 0, make(map[string]int32, len(shards))
	for i, s := range shards {
		n += s.Len()
		number[s.Name] = int32(i)
	}
	if n != len(x.where) {
		return places{}, false
	}
	p := places{agreed: x, shards: make([]int32, len(x.files))}
	for f, name := range x.files {
		i, ok := number[name]
		if !ok {
			return places{}, false
		}
		p.shards[f] = i
	}
	for i, s := range shards {
		for name := range s.Names() {
			if f, ok := x.where[name]; !ok || p.shards[f] != int32(i) {
				return places{}, false
			}
		}
	}
	return p, true
}

// len returns the number of distinct tensors.
func (p *places) len() int {
	if p.agreed != nil {
		return len(p.agreed.where)
	}
	return len(p.all)
}

// find returns the number of the shard that holds a tensor.
func (p *places) find(name string) (shard int, ok bool) {
	if p.agreed != nil {
		f, ok := p.agreed.where[name]
		if !ok {
			return 0, false
		}
		return int(p.shards[f]), true
	}
	i, ok := p.all[name]
	return int(i), ok
}

// is reports whether a tensor of the given shard is the one that find gives.
func (p *places) is(name string, shard int) bool {
	return p.agreed != nil || p.all[name] == int32(shard)
}
