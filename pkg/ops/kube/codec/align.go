package codec

import (
	"encoding/json"
	"reflect"
)

// alignCells bounds the table that lists are aligned with: what is longer than
// 500 elements on both sides, without what is equal at its ends, is compared
// element by element.
const alignCells = 500 * 500

// aligned compares lists whose elements have no names: elements that both have, in
// one order, are left out, and what stands between them is compared one by one.
func (d *differ) aligned(p Path, a, b []any) {
	head := 0
	for head < len(a) && head < len(b) && reflect.DeepEqual(a[head], b[head]) {
		head++
	}
	endA, endB := len(a), len(b)
	for endA > head && endB > head && reflect.DeepEqual(a[endA-1], b[endB-1]) {
		endA, endB = endA-1, endB-1
	}
	i, j := head, head
	for _, both := range append(common(a[head:endA], b[head:endB]), [2]int{endA - head, endB - head}) {
		d.between(p, a, b, i, head+both[0], j, head+both[1])
		i, j = head+both[0]+1, head+both[1]+1
	}
}

// between compares a[i:endA] with b[j:endB], of which nothing is equal.
func (d *differ) between(p Path, a, b []any, i, endA, j, endB int) {
	for ; i < endA && j < endB; i, j = i+1, j+1 {
		d.values(p.index(j), a[i], b[j])
	}
	for ; i < endA; i++ {
		d.add(Removed, p.index(i), a[i], nil)
	}
	for ; j < endB; j++ {
		d.add(Added, p.index(j), nil, b[j])
	}
}

// common returns the places, in both lists, of a longest common subsequence. It is
// none where the lists are too long for a table.
func common(a, b []any) [][2]int {
	if len(a)*len(b) == 0 || len(a)*len(b) > alignCells {
		return nil
	}
	inA, inB := numbered(a, b)
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width) // of what a[i:] and b[j:] have in common
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if inA[i] == inB[j] {
				length[i*width+j] = 1 + length[(i+1)*width+j+1]
			} else {
				length[i*width+j] = max(length[(i+1)*width+j], length[i*width+j+1])
			}
		}
	}
	var both [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case inA[i] == inB[j]:
			both = append(both, [2]int{i, j})
			i, j = i+1, j+1
		case length[(i+1)*width+j] >= length[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return both
}

// numbered gives equal elements of two lists equal numbers, so that they are
// compared in depth once.
func numbered(a, b []any) (inA, inB []int) {
	numbers := map[string]int{}
	of := func(list []any) []int {
		out := make([]int, len(list))
		for i, e := range list {
			text, _ := json.Marshal(e) // a tree always has a text, and maps in it are sorted
			n, known := numbers[string(text)]
			if !known {
				n = len(numbers)
				numbers[string(text)] = n
			}
			out[i] = n
		}
		return out
	}
	return of(a), of(b)
}
