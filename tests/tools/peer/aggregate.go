package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/webhook/interpreter"
	"k8s.io/utils/ptr"
)

const (
	notApplied  = "CellNotApplied"
	notReported = "CellNotReported"
)

// cell is the state of one cell. It contains the last report, also if the cell no longer reports.
type cell struct {
	name       string
	report     *report
	silence    string // reason of CellsReporting, empty while the cell reports
	why        string
	counters   counters
	conditions []condition
	generation *int64 // of the template
	others     map[string]json.RawMessage
	spoke      bool // now or before
	unnamed    bool // a status of a former version, without the name of its cell
}

// now returns whether the cell currently reports.
func (c *cell) now() bool {
	return c.report != nil && c.silence == ""
}

// written is the status on the hub. Its fields have the order in which an API server writes them.
type written struct {
	Cells      []memory    `json:"cells,omitempty"`
	Conditions []condition `json:"conditions,omitempty"`
	counters
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	ReportingCell      string `json:"reportingCell,omitempty"`
}

// aggregate merges the reports of the cells. Without items, or without a change of the status, it returns no patch.
func (d *deployment) aggregate(items []workv1alpha2.AggregatedStatusItem) (interpreter.Response, error) {
	if len(items) == 0 {
		return patched()
	}
	former := parseReport(d.Status)
	cells := knownCells(items, former)
	status := d.join(cells, former)
	if len(cells) == 1 && len(cells[0].others) > 0 {
		return d.withOthers(status, cells[0].others)
	}
	if status.says(former) {
		return patched()
	}
	return patched(add("/status", status))
}

// withOthers adds those fields of a single cell's status that the aggregation does not compute.
func (d *deployment) withOthers(status *written, others map[string]json.RawMessage) (interpreter.Response, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return interpreter.Response{}, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return interpreter.Response{}, err
	}
	for name, value := range others {
		fields[name] = value
	}
	raw, err = json.Marshal(fields)
	if err != nil || same(d.Status, raw) {
		return interpreter.Succeeded(""), err
	}
	return patched(add("/status", json.RawMessage(raw)))
}

// knownCells returns one cell per name, sorted by name.
func knownCells(items []workv1alpha2.AggregatedStatusItem, former *report) []*cell {
	byName := make(map[string]*cell, len(items))
	reporting := false
	for index := range items {
		item := &items[index]
		known := &cell{name: cmp.Or(item.ClusterName, "unnamed"), why: item.AppliedMessage}
		if item.Status != nil {
			known.report = parseReport(item.Status.Raw)
		}
		switch {
		case !item.Applied:
			known.silence = notApplied
		case known.report == nil:
			known.silence = notReported
		}
		reporting = reporting || known.report != nil
		if other := byName[known.name]; other == nil || other.report == nil && known.report != nil {
			byName[known.name] = known
		}
	}
	cells := make([]*cell, 0, len(byName))
	for _, known := range byName {
		cells = append(cells, known)
	}
	slices.SortFunc(cells, func(one, other *cell) int { return strings.Compare(one.name, other.name) })
	remembered := map[string]*memory{}
	if former != nil && !allReport(cells) {
		for index := range former.Cells {
			remembered[former.Cells[index].Name] = &former.Cells[index]
		}
	}
	for _, known := range cells {
		if report := known.report; report != nil {
			known.counters, known.generation, known.spoke = report.counters, report.ResourceTemplateGeneration, true
			known.conditions = withoutOwn(report.Conditions)
		} else if former != nil && former.ReportingCell == known.name {
			known.counters, known.conditions, known.spoke = former.counters, withoutOwn(former.Conditions), true
			if len(cells) == 1 {
				known.others = former.others()
			}
		} else if memory := remembered[known.name]; memory != nil {
			known.counters, known.generation, known.spoke = memory.counters, memory.ResourceTemplateGeneration, true
			known.conditions = memory.Conditions
		}
	}
	// The hub has no entries in status.cells until two cells are known. Until then, the former status is used instead.
	first := cells[0]
	if !reporting && former != nil && len(former.Cells) == 0 && former.ReportingCell == "" {
		if conditions := withoutOwn(former.Conditions); former.counters != (counters{}) || len(conditions) > 0 {
			first.counters, first.conditions, first.spoke, first.unnamed = former.counters, conditions, true, true
			first.report, first.others = nil, former.others()
		}
	}
	if len(cells) == 1 && first.report != nil {
		first.others = first.report.others()
	}
	return cells
}

func allReport(cells []*cell) bool {
	for _, known := range cells {
		if known.report == nil {
			return false
		}
	}
	return true
}

func withoutOwn(conditions []condition) []condition {
	own := slices.IndexFunc(conditions, func(c condition) bool { return c.Type == cellsReporting })
	if own < 0 {
		return conditions
	}
	return slices.DeleteFunc(slices.Clone(conditions), func(c condition) bool { return c.Type == cellsReporting })
}

func (d *deployment) join(cells []*cell, former *report) *written {
	if former == nil {
		former = &report{}
	}
	shares := d.shares(cells)
	desired, err := d.desired()
	total := int64(desired)
	current := err == nil && areOf(shares, total, former.Cells)
	carried := false
	status := &written{}
	for _, known := range cells {
		current = current && known.current(d.Metadata.Generation)
		carried = carried || known.carriesGeneration()
		status.add(known.counters)
	}
	remembered := make(map[string]*memory, len(former.Cells))
	if !current {
		for index := range former.Cells {
			remembered[former.Cells[index].Name] = &former.Cells[index]
		}
	}
	for _, known := range cells {
		if !known.spoke || len(cells) == 1 {
			continue
		}
		entry := memory{
			Conditions: known.conditions, counters: known.counters, Name: known.name,
			ResourceTemplateGeneration: known.generation,
		}
		if current {
			entry.AssignedReplicas, entry.TemplateReplicas = ptr.To(shares[known.name]), &total
		} else if before := remembered[known.name]; before != nil {
			entry.AssignedReplicas, entry.TemplateReplicas = before.AssignedReplicas, before.TemplateReplicas
		}
		status.Cells = append(status.Cells, entry)
	}
	status.saturate()
	translate := func(carried, upToDate bool, former *int64) *int64 {
		switch {
		case !carried:
			return nil
		case upToDate:
			return d.Metadata.Generation
		default:
			return former
		}
	}
	status.ObservedGeneration = translate(carried, current, former.ObservedGeneration)
	if len(cells) == 1 {
		if cells[0].spoke && !cells[0].unnamed {
			status.ReportingCell = cells[0].name
		}
		status.Conditions = slices.Clone(cells[0].conditions)
	} else {
		status.Conditions = joinConditions(cells, former.Conditions)
	}
	for index := range status.Conditions {
		joined := &status.Conditions[index]
		judged := current
		if joined.ObservedGeneration != nil {
			for _, known := range cells {
				judged = judged && known.judged(joined.Type)
			}
		}
		var before *int64
		if other := find(former.Conditions, joined.Type); other != nil {
			before = other.ObservedGeneration
		}
		joined.ObservedGeneration = translate(joined.ObservedGeneration != nil, judged, before)
	}
	if silent := silence(cells, former.Conditions); silent != nil {
		// The former status may be of a cell that another cell has replaced.
		if about := find(status.Conditions, available); about != nil && cells[0].unnamed && about.Status != "Unknown" {
			generation := about.ObservedGeneration
			*about = *silent
			about.Type, about.Status, about.ObservedGeneration = available, "Unknown", generation
		}
		status.Conditions = append(status.Conditions, *silent)
	}
	return status
}

// current returns whether the cell has observed its own generation and reports on the hub's template.
func (c *cell) current(generation *int64) bool {
	if !c.now() || c.report.ResourceTemplateGeneration == nil || c.report.Generation == nil {
		return false
	}
	return equal(c.report.ResourceTemplateGeneration, generation) && equal(c.report.Generation, c.report.ObservedGeneration)
}

func (c *cell) carriesGeneration() bool {
	if c.now() {
		return c.report.ObservedGeneration != nil
	}
	return c.spoke
}

// judged returns whether the condition is for the current generation of the cell. A missing condition counts as judged.
func (c *cell) judged(conditionType string) bool {
	if !c.now() {
		return false
	}
	condition := find(c.conditions, conditionType)
	return condition == nil || equal(condition.ObservedGeneration, c.report.Generation)
}

// shares returns the replicas that are assigned to each cell, or nil if a cell does not report them.
func (d *deployment) shares(cells []*cell) map[string]int64 {
	shares := make(map[string]int64, len(cells))
	for _, known := range cells {
		if !known.now() {
			return nil
		}
		share := known.report.AssignedReplicas
		if d.Spec.Replicas == nil && known.report.AssignedMinReplicas != nil {
			share = known.report.AssignedMinReplicas
		}
		if share == nil {
			return nil
		}
		shares[known.name] = min(max(*share, 0), math.MaxInt32)
	}
	return shares
}

// areOf returns whether these are the shares of this total. Either the shares sum to the total, or each share equals
// the total. If the total is not 0, no share is 0. If the total has changed, at least one share has changed too.
func areOf(shares map[string]int64, total int64, memories []memory) bool {
	if shares == nil {
		return false
	}
	var sum int64
	each := true
	for _, share := range shares {
		if total > 0 && share == 0 {
			return false
		}
		each = each && share == total
		sum += share
	}
	remembered := make(map[string]int64, len(memories))
	ofAnother := false
	for index := range memories {
		known := &memories[index]
		ofAnother = ofAnother || known.TemplateReplicas != nil && *known.TemplateReplicas != total
		if known.AssignedReplicas != nil {
			remembered[known.Name] = *known.AssignedReplicas
		}
	}
	return (each || sum == total) && !(ofAnother && maps.Equal(shares, remembered))
}

// joinConditions returns one condition per type, sorted by type. Available is true if it is true in any cell. Every
// other type has the status of its worst cell.
func joinConditions(cells []*cell, former []condition) []condition {
	type deciding struct {
		cell      string
		condition *condition
	}
	byType := map[string]deciding{}
	for _, known := range cells {
		for index := range known.conditions {
			candidate := &known.conditions[index]
			other, exists := byType[candidate.Type]
			better := exists && severity(candidate.Status) > severity(other.condition.Status)
			worse := exists && severity(candidate.Status) < severity(other.condition.Status)
			if !exists || candidate.Type == available && better || candidate.Type != available && worse {
				byType[candidate.Type] = deciding{known.name, candidate}
			}
		}
	}
	joined := make([]condition, 0, len(byType))
	for _, decision := range byType {
		condition := *decision.condition
		if before := find(former, condition.Type); before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		if condition.Message == "" {
			condition.Message = decision.cell
		} else {
			condition.Message = decision.cell + ": " + condition.Message
		}
		condition.Message = truncated(condition.Message)
		joined = append(joined, condition)
	}
	slices.SortFunc(joined, func(one, other condition) int { return strings.Compare(one.Type, other.Type) })
	return joined
}

func severity(status string) int {
	return slices.Index([]string{"False", "Unknown", "True"}, status)
}

// silence returns the condition with the cells that have not reported, or nil if all cells have reported.
func silence(cells []*cell, former []condition) *condition {
	reason := ""
	var sentences []string
	for _, known := range cells {
		switch {
		case known.silence == notReported:
			reason = cmp.Or(reason, notReported)
			sentences = append(sentences, known.name+": no status reported")
		case known.silence == notApplied && known.why == "":
			reason = notApplied
			sentences = append(sentences, known.name+": not applied yet")
		case known.silence == notApplied:
			reason = notApplied
			sentences = append(sentences, known.name+": not applied: "+known.why)
		}
	}
	if reason == "" {
		return nil
	}
	since := time.Now().UTC().Format(time.RFC3339)
	if before := find(former, cellsReporting); before != nil && before.Status == "False" {
		since = before.LastTransitionTime
	}
	return &condition{
		LastTransitionTime: since, Message: truncated(strings.Join(sentences, "; ")), Reason: reason, Status: "False",
		Type: cellsReporting,
	}
}

// says returns whether the former status equals this status.
func (w *written) says(former *report) bool {
	return former != nil && former.counters == w.counters && former.ReportingCell == w.ReportingCell &&
		equal(former.ObservedGeneration, w.ObservedGeneration) &&
		former.Generation == nil && former.ResourceTemplateGeneration == nil && former.AssignedReplicas == nil &&
		former.AssignedMinReplicas == nil && slices.EqualFunc(former.Conditions, w.Conditions, equalConditions) &&
		slices.EqualFunc(former.Cells, w.Cells, func(one, other memory) bool {
			return one.Name == other.Name && one.counters == other.counters &&
				equal(one.ResourceTemplateGeneration, other.ResourceTemplateGeneration) &&
				equal(one.AssignedReplicas, other.AssignedReplicas) && equal(one.TemplateReplicas, other.TemplateReplicas) &&
				slices.EqualFunc(one.Conditions, other.Conditions, equalConditions)
		}) && len(former.others()) == 0
}

func equalConditions(one, other condition) bool {
	generations := equal(one.ObservedGeneration, other.ObservedGeneration)
	one.ObservedGeneration, other.ObservedGeneration = nil, nil
	return generations && one == other
}

func equal(one, other *int64) bool {
	return ptr.Equal(one, other)
}

func find(conditions []condition, conditionType string) *condition {
	for index := range conditions {
		if conditions[index].Type == conditionType {
			return &conditions[index]
		}
	}
	return nil
}

func truncated(message string) string {
	if utf8.RuneCountInString(message) <= messageMax {
		return message
	}
	return string([]rune(message)[:messageMax])
}
