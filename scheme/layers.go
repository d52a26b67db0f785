package scheme

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/natural"
)

// layerMap collects the rows of the scheme map.
type layerMap struct {
	sets      map[string]*layerSet // by pattern and label
	order     []*layerSet
	labels    map[Detected]string
	quantized map[string]bool // by label
	pattern   []byte          // scratch
	numbers   []int           // scratch
}

type layerSet struct {
	LayerSet
	pattern string         // the name with each number replaced by hole
	numbers []map[int]bool // what stands in each hole
	leaves  []string
}

// hole stands for a number in a pattern, and border between pattern and label.
// Both are bytes that no header holds, since it is UTF-8.
const (
	hole   = "\xff"
	border = "\xfe"
)

func newLayerMap() *layerMap {
	return &layerMap{sets: map[string]*layerSet{}, labels: map[Detected]string{}, quantized: map[string]bool{}}
}

// label describes a module's scheme.
func (l *layerMap) label(m *Module, d Detected) string {
	if d.DType == "" && len(m.Members) > 0 {
		return string(m.Members[0].DType)
	}
	label, ok := l.labels[d]
	if !ok {
		label = d.String()
		l.labels[d] = label
		l.quantized[label] = l.quantized[label] || d.Quantized()
	}
	return label
}

func (l *layerMap) add(m *Module, d Detected, params uint64, bytes int64) {
	label := l.label(m, d)
	l.split(m.Name)
	n := len(l.pattern)
	l.pattern = append(append(l.pattern, border...), label...)
	s := l.sets[string(l.pattern)]
	if s == nil {
		s = &layerSet{LayerSet: LayerSet{Scheme: label}, pattern: string(l.pattern[:n]), numbers: make([]map[int]bool, len(l.numbers))}
		for i := range s.numbers {
			s.numbers[i] = map[int]bool{}
		}
		l.sets[string(l.pattern)] = s
		l.order = append(l.order, s)
	}
	for i, n := range l.numbers {
		s.numbers[i][n] = true
	}
	s.Count++
	s.Params += params
	s.Bytes += bytes
}

// split takes the components of a name that are numbers out of it.
func (l *layerMap) split(name string) {
	l.pattern, l.numbers = l.pattern[:0], l.numbers[:0]
	for first := true; first || name != ""; first = false {
		part, rest, more := strings.Cut(name, ".")
		if n, err := strconv.Atoi(part); err == nil && '0' <= part[0] && part[0] <= '9' && (part[0] != '0' || part == "0") {
			l.numbers = append(l.numbers, n)
			part = hole
		}
		l.pattern = append(l.pattern, part...)
		if more {
			l.pattern = append(l.pattern, '.')
		}
		name = rest
	}
}

// rows merges siblings and spells the sets.
func (l *layerMap) rows() []LayerSet {
	merged := map[string]*layerSet{}
	var out []*layerSet
	for _, s := range l.order {
		parent, leaf := "", s.pattern
		for _, set := range s.numbers {
			leaf = strings.Replace(leaf, hole, "{"+spellRanges(set)+"}", 1)
		}
		if i := strings.LastIndexByte(leaf, '.'); i >= 0 {
			parent, leaf = leaf[:i], leaf[i+1:]
		}
		key := strings.Join([]string{parent, s.Scheme, strconv.Itoa(s.Count)}, border)
		if len(s.numbers) == 0 || strings.Contains(leaf, "{") {
			key += border + leaf
		}
		to := merged[key]
		if to == nil {
			to = &layerSet{LayerSet: LayerSet{Scheme: s.Scheme}, pattern: parent}
			merged[key] = to
			out = append(out, to)
		}
		to.leaves = append(to.leaves, leaf)
		to.Count += s.Count
		to.Params += s.Params
		to.Bytes += s.Bytes
	}
	rows := make([]LayerSet, len(out))
	for i, s := range out {
		slices.SortFunc(s.leaves, natural.Compare)
		s.Modules = strings.Join(s.leaves, ",")
		if len(s.leaves) > 1 {
			s.Modules = "{" + s.Modules + "}"
		}
		if s.pattern != "" {
			s.Modules = s.pattern + "." + s.Modules
		}
		rows[i] = s.LayerSet
	}
	slices.SortStableFunc(rows, func(a, b LayerSet) int {
		return cmp.Or(natural.Compare(a.Modules, b.Modules), strings.Compare(a.Scheme, b.Scheme))
	})
	return rows
}

// spellRanges writes a set of numbers as 0-3,7,9-11.
func spellRanges(set map[int]bool) string {
	numbers := make([]int, 0, len(set))
	for n := range set {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
