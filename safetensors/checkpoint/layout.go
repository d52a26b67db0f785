package checkpoint

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/natural"
)

// weightSuffix ends the name of every file that may be read as weights. Nothing
// else is ever opened as one: a .bin is a pickle.
const weightSuffix = ".safetensors"

// weightName is a weight file's name taken apart. Variants have two spellings:
// model.fp16-00001-of-00002 and model-00001-of-00002.fp16.
type weightName struct {
	stem, variant string
	late          bool // the variant stands behind the numbers
	part, of      int  // 0 where the name carries no numbers
	digits        int  // width of the numbers
}

var shardNumber = regexp.MustCompile(`^(.*)-([0-9]{3,9})-of-([0-9]{3,9})(?:\.([^.]+))?$`)

func parseWeightName(name string) weightName {
	stem := strings.TrimSuffix(name, weightSuffix)
	w := weightName{stem: stem}
	if m := shardNumber.FindStringSubmatch(stem); m != nil {
		w.stem, w.variant, w.late, w.digits = m[1], m[4], m[4] != "", len(m[2])
		w.part, _ = strconv.Atoi(m[2])
		w.of, _ = strconv.Atoi(m[3])
	}
	if i := strings.LastIndexByte(w.stem, '.'); i > 0 && w.variant == "" {
		w.stem, w.variant = w.stem[:i], w.stem[i+1:]
	}
	return w
}

// indexVariant returns the variant of an index file, such as bf16 in
// diffusion_pytorch_model.safetensors.index.bf16.json, and whether name is an
// index at all.
func indexVariant(name string) (variant string, ok bool) {
	_, rest, ok := strings.Cut(name, weightSuffix+".index.")
	if !ok {
		return "", false
	}
	if rest == "json" {
		return "", true
	}
	return strings.CutSuffix(rest, ".json")
}

// consolidated reports whether a file belongs to Mistral's own twin of a
// checkpoint, whose tensors have other names.
func consolidated(name string) bool { return strings.HasPrefix(name, "consolidated") }

// layout is what a directory's file names say before anything is opened.
type layout struct {
	index   string   // the index to follow, or ""
	weights []string // weight files in natural order
	shadow  []string // consolidated* beside other weights
}

// planLayout chooses among a directory's files: an index before names, the plain
// variant before others, Hugging Face's shards before Mistral's.
func planLayout(names []string) layout {
	var l layout
	var indexes []string
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue // ._model.safetensors and the like, which macOS leaves behind
		}
		if _, ok := indexVariant(name); ok {
			indexes = append(indexes, name)
		} else if strings.HasSuffix(name, weightSuffix) {
			l.weights = append(l.weights, name)
		}
	}
	slices.SortFunc(l.weights, natural.Compare)
	slices.SortFunc(indexes, func(a, b string) int {
		if c := indexRank(a) - indexRank(b); c != 0 {
			return c
		}
		return natural.Compare(a, b)
	})
	isShadow := func(name string) bool { return consolidated(name) }
	if !slices.ContainsFunc(l.weights, func(n string) bool { return !consolidated(n) }) {
		isShadow = func(string) bool { return false } // Mistral's own repository: its files are the model
	}
	for _, name := range l.weights {
		if isShadow(name) {
			l.shadow = append(l.shadow, name)
		}
	}
	l.weights = slices.DeleteFunc(l.weights, isShadow)
	indexes = slices.DeleteFunc(indexes, isShadow)
	if len(indexes) > 0 && !besidePlain(indexes[0], l.weights) {
		l.index = indexes[0]
	}
	return l
}

// besidePlain reports whether an index is a variant's and the plain weights,
// which no index names, lie beside it.
func besidePlain(index string, weights []string) bool {
	variant, _ := indexVariant(index)
	stem, _, _ := strings.Cut(index, weightSuffix)
	return variant != "" && slices.ContainsFunc(weights, func(n string) bool {
		w := parseWeightName(n)
		return w.stem == stem && w.variant == ""
	})
}

// indexRank orders the indexes of a directory by which one engines follow.
func indexRank(name string) int {
	switch variant, _ := indexVariant(name); {
	case consolidated(name):
		return 4
	case variant != "":
		return 3
	case name == "model.safetensors.index.json":
		return 0
	case name == "diffusion_pytorch_model.safetensors.index.json":
		return 1
	}
	return 2
}

// variantName is what variants are called.
var variantName = regexp.MustCompile(`^(?i:(fp|bf|f|int|i|q)[0-9]+.*|(non_)?ema)$`)

// otherVariants returns the files that hold another variant of weights which
// stand in the directory too: x.fp16.safetensors beside x.safetensors.
//
// A dotted name alone does not make a variant: model.mtp.safetensors beside
// model.safetensors is a part of the model, and engines load it.
func otherVariants(names []string) []string {
	plain := map[string]bool{}
	for _, n := range names {
		if w := parseWeightName(n); w.variant == "" {
			plain[w.stem] = true
		}
	}
	var other []string
	for _, n := range names {
		if w := parseWeightName(n); variantName.MatchString(w.variant) && plain[w.stem] {
			other = append(other, n)
		}
	}
	return other
}

// maxGaps bounds the names that gaps returns: a name may claim a billion parts.
const maxGaps = 10_000

// gaps returns the names that are missing from numbered sets among names.
// Numbers run from 1, or from 0 as some writers have it.
func gaps(names []string) []string {
	type set struct {
		weightName
		have map[int]bool
	}
	sets := map[weightName]*set{}
	for _, n := range names {
		w := parseWeightName(n)
		if w.of == 0 {
			continue
		}
		key := w
		key.part = 0
		if sets[key] == nil {
			sets[key] = &set{w, map[int]bool{}}
		}
		sets[key].have[w.part] = true
	}
	var missing []string
	byName := func(a, b *set) int { return natural.Compare(a.name(0), b.name(0)) }
	for _, s := range slices.SortedFunc(maps.Values(sets), byName) {
		first := 1
		if s.have[0] {
			first = 0
		}
		for i := first; i < first+s.of && len(missing) < maxGaps; i++ {
			if !s.have[i] {
				missing = append(missing, s.name(i))
			}
		}
	}
	slices.SortFunc(missing, natural.Compare)
	return missing
}

// name spells the name of the set's part i as its other parts are spelt.
func (w weightName) name(i int) string {
	pad := func(n int) string {
		s := strconv.Itoa(n)
		return strings.Repeat("0", max(0, w.digits-len(s))) + s
	}
	numbers := "-" + pad(i) + "-of-" + pad(w.of)
	switch {
	case w.late:
		return w.stem + numbers + "." + w.variant + weightSuffix
	case w.variant != "":
		return w.stem + "." + w.variant + numbers + weightSuffix
	}
	return w.stem + numbers + weightSuffix
}
