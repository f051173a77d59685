package kfake

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// GroupInfo is what the broker tells of a group.
type GroupInfo struct {
	Group   string
	State   string
	Epoch   int32
	Members []GroupMember
	Commits map[string]map[int32]GroupCommit
}

// GroupMember is one member of a group and what it is to have.
type GroupMember struct {
	MemberID   string
	Assignment map[string][]int32
}

// GroupCommit is one committed offset.
type GroupCommit struct {
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// NumAssigned counts the partitions of a member.
func (m *GroupMember) NumAssigned() int {
	n := 0
	for _, partitions := range m.Assignment {
		n += len(partitions)
	}
	return n
}

// NumAssigned counts the partitions of all members.
func (g *GroupInfo) NumAssigned() int {
	n := 0
	for i := range g.Members {
		n += g.Members[i].NumAssigned()
	}
	return n
}

// GroupInfo describes a group of either kind; nil if there is none.
func (c *Cluster) GroupInfo(group string) *GroupInfo {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info := c.consumerGroup(ctx, group)
	if info == nil {
		info = c.classicGroup(ctx, group)
	}
	if info == nil {
		return nil
	}
	offsets, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil
	}
	info.Commits = map[string]map[int32]GroupCommit{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if info.Commits[o.Topic] == nil {
			info.Commits[o.Topic] = map[int32]GroupCommit{}
		}
		info.Commits[o.Topic][o.Partition] = GroupCommit{o.At, o.LeaderEpoch, o.Metadata}
	})
	return info
}

func (c *Cluster) consumerGroup(ctx context.Context, group string) *GroupInfo {
	described, err := c.admin.DescribeConsumerGroups(ctx, group)
	g, ok := described[group]
	if err != nil || !ok || g.Err != nil {
		return nil
	}
	info := &GroupInfo{Group: group, State: g.State, Epoch: g.Epoch}
	for _, m := range g.Members {
		member := GroupMember{m.MemberID, map[string][]int32{}}
		for topic, partitions := range m.Assignment {
			for partition := range partitions {
				member.Assignment[topic] = append(member.Assignment[topic], partition)
			}
		}
		info.Members = append(info.Members, member)
	}
	return info
}

func (c *Cluster) classicGroup(ctx context.Context, group string) *GroupInfo {
	described, err := c.admin.DescribeGroups(ctx, group)
	g, ok := described[group]
	if err != nil || !ok || g.Err != nil || g.State == "Dead" {
		return nil
	}
	info := &GroupInfo{Group: group, State: g.State}
	for _, m := range g.Members {
		member := GroupMember{m.MemberID, map[string][]int32{}}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				member.Assignment[topic.Topic] = topic.Partitions
			}
		}
		info.Members = append(info.Members, member)
	}
	return info
}

// WaitGroupStable asks until the group is stable and has this many members.
func (c *Cluster) WaitGroupStable(ctx context.Context, group string, members int) (*GroupInfo, error) {
	for {
		info := c.GroupInfo(group)
		if info != nil && info.State == "Stable" && len(info.Members) == members {
			return info, nil
		}
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
