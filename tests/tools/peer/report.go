package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	available      = "Available"
	cellsReporting = "CellsReporting"
	messageMax     = 32768
	reasonMax      = 1024
	typeMax        = 316
)

// condition has the fields of a condition in the order in which an API server writes them.
type condition struct {
	LastTransitionTime string `json:"lastTransitionTime"`
	Message            string `json:"message"`
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	Reason             string `json:"reason"`
	Status             string `json:"status"`
	Type               string `json:"type"`
}

type counters struct {
	CurrentReplicas int64 `json:"currentReplicas"`
	DesiredReplicas int64 `json:"desiredReplicas"`
	ReadyReplicas   int64 `json:"readyReplicas"`
	Replicas        int64 `json:"replicas"`
}

// memory is an entry of status.cells.
type memory struct {
	AssignedReplicas *int64      `json:"assignedReplicas,omitempty"`
	Conditions       []condition `json:"conditions,omitempty"`
	counters
	Name                       string `json:"name"`
	ResourceTemplateGeneration *int64 `json:"resourceTemplateGeneration,omitempty"`
	TemplateReplicas           *int64 `json:"templateReplicas,omitempty"`
}

// report is a status that a cell has reported, or the status on the hub.
type report struct {
	counters
	AssignedMinReplicas        *int64      `json:"assignedMinReplicas"`
	AssignedReplicas           *int64      `json:"assignedReplicas"`
	CellRulesStamp             *int64      `json:"cellRulesStamp"`
	Cells                      []memory    `json:"cells"`
	Conditions                 []condition `json:"conditions"`
	Generation                 *int64      `json:"generation"`
	ObservedGeneration         *int64      `json:"observedGeneration"`
	ReportingCell              string      `json:"reportingCell"`
	ResourceTemplateGeneration *int64      `json:"resourceTemplateGeneration"`
	raw                        json.RawMessage
}

// ownFields are the fields of a report. If there is a single cell, the other fields of its status are copied.
var ownFields = []string{
	"assignedMinReplicas", "assignedReplicas", "cellRulesStamp", "cells", "conditions", "currentReplicas",
	"desiredReplicas", "generation", "observedGeneration", "readyReplicas", "replicas", "reportingCell",
	"resourceTemplateGeneration",
}

// parseReport returns nil if the status is empty, or if the CRD would reject the status.
func parseReport(raw json.RawMessage) *report {
	if isNull(raw) || bytes.Equal(raw, []byte("{}")) {
		return nil
	}
	parsed := report{raw: raw}
	if json.Unmarshal(raw, &parsed) != nil {
		return nil
	}
	parsed.saturate()
	for index := range parsed.Cells {
		if validate(parsed.Cells[index].Conditions) != nil {
			return nil
		}
	}
	if validate(parsed.Conditions) != nil {
		return nil
	}
	return &parsed
}

// others returns the fields that are not part of a report.
func (r *report) others() map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(r.raw, &fields) != nil {
		return nil
	}
	for _, name := range ownFields {
		delete(fields, name)
	}
	return fields
}

func (c *counters) saturate() {
	for _, counter := range []*int64{&c.CurrentReplicas, &c.DesiredReplicas, &c.ReadyReplicas, &c.Replicas} {
		*counter = min(max(*counter, math.MinInt32), math.MaxInt32)
	}
}

func (c *counters) add(other counters) {
	c.CurrentReplicas += other.CurrentReplicas
	c.DesiredReplicas += other.DesiredReplicas
	c.ReadyReplicas += other.ReadyReplicas
	c.Replicas += other.Replicas
}

var errRefused = errors.New("the CRD refuses a condition")

func validate(conditions []condition) error {
	for index := range conditions {
		if !conditions[index].valid() {
			return errRefused
		}
	}
	return nil
}

func (c *condition) valid() bool {
	if _, err := time.Parse(time.RFC3339, c.LastTransitionTime); err != nil {
		return false
	}
	if c.Status != "True" && c.Status != "False" && c.Status != "Unknown" {
		return false
	}
	return utf8.RuneCountInString(c.Message) <= messageMax &&
		(c.ObservedGeneration == nil || *c.ObservedGeneration >= 0) && isReason(c.Reason) && isType(c.Type)
}

func isReason(reason string) bool {
	if reason == "" || len(reason) > reasonMax || !isLetter(reason[0]) {
		return false
	}
	if last := reason[len(reason)-1]; !isAlphanumeric(last) && last != '_' {
		return false
	}
	return every(reason, func(c byte) bool { return isAlphanumeric(c) || c == '_' || c == ',' || c == ':' })
}

func isType(name string) bool {
	if len(name) > typeMax {
		return false
	}
	if domain, rest, qualified := strings.Cut(name, "/"); qualified {
		for label := range strings.SplitSeq(domain, ".") {
			if !isLabel(label) {
				return false
			}
		}
		name = rest
	}
	return name != "" && isAlphanumeric(name[0]) && isAlphanumeric(name[len(name)-1]) &&
		every(name, func(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' || c == '.' })
}

func isLabel(label string) bool {
	return label != "" && label[0] != '-' && label[len(label)-1] != '-' &&
		every(label, func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' })
}

func every(text string, holds func(byte) bool) bool {
	for index := range len(text) {
		if !holds(text[index]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isAlphanumeric(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9'
}
