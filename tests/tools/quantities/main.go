// Command quantities prints how the library of Kubernetes parses, prints and adds quantities. For each text, it prints
// a line with the canonical form, or "-" if the text is invalid. Then it prints one line per sum of two quantities.
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

var numbers = []string{
	"0", "1", "3", "7", "9", "10", "12", "99", "100", "512", "999", "1000", "1023", "1024", "1536", "4096", "1000000",
	"0.1", "0.5", "1.5", "1.25", "0.001", "1.0005", "0.000000001", "0.0000000001", "1.", ".5", "007", "1.50", "9223372036854775807",
	"9223372036854775808", "99999999999999999999", "4611686018427387904", "1152921504606846976", "8.999999999999999999999", "123456789.123456789",
	"1.1111111111111111111", "62.5",
}

var suffixes = []string{
	"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
	"e0", "e1", "e2", "e3", "E3", "e-1", "e-3", "E-6", "e-9", "e-12", "e+3", "e6", "e9", "e12", "e15", "e18", "e19",
	"x", "K", "ki", "mi", "Zi", "i", "e", "e+", "e1.5", " Gi", "GiB",
}

var signs = []string{"", "-", "+"}

var summands = []string{
	"0", "1", "100m", "250m", "1500m", "1n", "-1n", "1u", "1k", "1Ki", "1Mi", "1.5Gi", "1G", "2Gi", "-2Gi", "1e3", "1E-3", "7Ei", "9223372036854775807",
	"-9223372036854775807", "1E", "999999999n", "0Gi", "512",
}

// compute-federation caps larger values. Kubernetes does not.
var limit = resource.MustParse("1e29")

func beyond(quantity resource.Quantity) bool {
	negated := quantity.DeepCopy()
	negated.Neg()
	return quantity.Cmp(limit) > 0 || negated.Cmp(limit) > 0
}

func main() {
	for _, sign := range signs {
		for _, number := range numbers {
			for _, suffix := range suffixes {
				text := sign + number + suffix
				canonical := "-"
				if quantity, err := resource.ParseQuantity(text); err == nil {
					if beyond(quantity) {
						continue
					}
					// String would return some texts without changes.
					number, suffix := quantity.CanonicalizeBytes(nil)
					canonical = string(number) + string(suffix)
					// The library drops the suffix of 1000E and more.
					if again, err := resource.ParseQuantity(canonical); err != nil || again.Cmp(quantity) != 0 {
						continue
					}
				}
				fmt.Printf("%s\t%s\n", text, canonical)
			}
		}
	}
	for _, one := range summands {
		for _, other := range summands {
			sum := resource.MustParse(one)
			sum.Add(resource.MustParse(other))
			fmt.Printf("%s\t%s\t%s\n", one, other, sum.String())
		}
	}
}
