// Checkpoints along paths: where they are, what they are worth, and how they
// go.

#include "cache/state_component.h"

#include <algorithm>
#include <cassert>

namespace stemma {

StateComponent::StateComponent(Tree& tree, EvictionPolicy& policy, EntryKind kind,
                               const CostModel& cost, std::uint32_t rows, std::uint64_t row_bytes,
                               ByteBudget* budget)
    : tree_(tree),
      policy_(policy),
      kind_(kind),
      cost_(cost),
      pool_(rows, row_bytes, budget),
      checkpoints_(rows) {}

StateComponent::~StateComponent() {
  for (std::size_t node = 0; node < counts_.size(); ++node) {
    for (std::size_t i = 0; i < counts_[node]; ++i)
      const RowRef last = pool_.adopt(rows_[node].data()[i]);
  }
}

std::size_t StateComponent::up_to(NodeId node, Depth depth) const {
  const std::span<const RowId> all = rows(node);
  const auto above = std::upper_bound(all.begin(), all.end(), depth,
                                      [this](Depth d, RowId row) { return d < this->depth(row); });
  return static_cast<std::size_t>(above - all.begin());
}

std::optional<RowId> StateComponent::deepest(NodeId node, Depth limit) const {
  for (NodeId at = node; !tree_[at].is_root(); at = tree_[at].parent) {
    if (counts_[index_of(at)] == 0) continue;
    if (const std::size_t count = up_to(at, limit); count > 0) return rows(at)[count - 1];
  }
  return std::nullopt;
}

std::vector<Depth> StateComponent::depths(NodeId node, Depth from, Depth to) const {
  std::vector<Depth> found;
  for (NodeId at = node; tree_[at].end > from; at = tree_[at].parent) {
    const std::span<const RowId> all = rows(at);
    for (auto row = all.rbegin(); row != all.rend(); ++row) {
      if (depth(*row) > from && depth(*row) <= to) found.push_back(depth(*row));
    }
    if (tree_[at].is_root()) break;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

Depth StateComponent::evicted_depth(NodeId node, Depth from, Depth to) const {
  Depth deepest_evicted = 0;
  for (NodeId at = node; !tree_[at].is_root() && tree_[at].end > from; at = tree_[at].parent) {
    const Depth evicted = evicted_[index_of(at)];
    if (evicted > from && evicted <= to) deepest_evicted = std::max(deepest_evicted, evicted);
  }
  return deepest_evicted;
}

EntryInfo StateComponent::info(RowId row) const {
  const Checkpoint& checkpoint = checkpoints_[index_of(row)];
  const Node& node = tree_[checkpoint.node];
  const Depth before = checkpoint.depth - 1;
  EntryInfo info;
  info.depth = checkpoint.depth;
  info.cost =
      cost_.of(tree_.restorable(tree_.covering(checkpoint.node, before), before), checkpoint.depth);
  info.bytes = static_cast<double>(pool_.slot_bytes());
  info.last_used = checkpoint.last_used;
  info.uses = checkpoint.uses;
  info.turn = checkpoint.turn;
  const bool last = rows(checkpoint.node).back() == row;
  if (node.leaf() && last) {
    info.place = EntryPlace::end;
    // A path's end is one thing: whatever its own node has goes with it, sooner or later, so it is
    // worth all that the node saves, for all that the node takes.
    const Depth base = tree_.restorable(node.parent, node.start);
    info.cost = cost_.of(base, checkpoint.depth);
    info.bytes = tree_.bytes_above(checkpoint.node, node.start);
  } else if (node.leaf() && checkpoint.turn == node.turn) {
    info.place = EntryPlace::recent;
  } else if (checkpoint.depth == node.end && tree_.nodes().is_fork(checkpoint.node)) {
    info.place = EntryPlace::fork;
  }
  // One that lacks its window saves nothing.
  if (tree_.restorable(checkpoint.node, checkpoint.depth) < checkpoint.depth) info.cost = 0;
  info.priority = checkpoint.priority;
  info.retain_until = checkpoint.retain_until;
  info.last_token = node.tokens()[checkpoint.depth - node.start - 1];
  return info;
}

bool StateComponent::at_path_end(RowId row) const {
  const Checkpoint& checkpoint = checkpoints_[index_of(row)];
  const Node& node = tree_[checkpoint.node];
  return node.leaf() && checkpoint.turn == node.turn;
}

EntryInfo StateComponent::candidate(NodeId node, Depth depth, MarkSource source) const {
  EntryInfo info;
  info.depth = depth;
  const Depth known = std::min(depth, tree_[node].end);  // of the path
  info.cost = cost_.of(tree_.restorable(tree_.covering(node, known), known), depth);
  info.bytes = static_cast<double>(pool_.slot_bytes());
  info.last_used = tree_.clock();
  info.place = source == MarkSource::branch   ? EntryPlace::fork
               : source >= MarkSource::repeat ? EntryPlace::end
                                              : EntryPlace::inside;
  info.priority = tree_[node].priority;
  return info;
}

void StateComponent::put(RowId row) {
  if (!held(row)) policy_.put({kind_, index_of(row)}, info(row));
}

void StateComponent::make_room(NodeId node) {
  if (counts_.size() > index_of(node)) return;
  const std::size_t size = index_of(node) + 1;
  rows_.grow_to(size);
  counts_.grow_to(size);
  evicted_.grow_to(size);
}

void StateComponent::attach(NodeId node, Depth depth, MarkSource source, std::uint16_t turn,
                            RowRef row) {
  if (depth <= 0) return;
  const NodeId at = tree_.covering(node, depth);
  const std::size_t place = up_to(at, depth);
  if (place > 0 && this->depth(rows(at)[place - 1]) == depth) return;
  row.set_pinned(false);
  const RowId id = row.detach();
  checkpoints_[index_of(id)] = {at,
                                depth,
                                tree_.clock(),
                                0,
                                turn,
                                source,
                                static_cast<std::uint8_t>(tree_[at].priority),
                                tree_[at].retain_until};
  std::uint32_t& count = counts_[index_of(at)];
  Run<RowId>& of_node = rows_[index_of(at)];
  of_node.append(count, {&id, 1});
  std::copy_backward(of_node.data() + place, of_node.data() + count, of_node.data() + count + 1);
  of_node.data()[place] = id;
  ++count;
  ++count_;
  if (evicted_[index_of(at)] == depth) evicted_[index_of(at)] = 0;
  put(id);
  if (place > 0) put(of_node.data()[place - 1]);
  if (place + 1 < count) put(of_node.data()[place + 1]);
  tree_.changed(at);
}

void StateComponent::use(RowId row, const Retention& retention) {
  Checkpoint& checkpoint = checkpoints_[index_of(row)];
  checkpoint.last_used = tree_.clock();
  ++checkpoint.uses;
  if (retention.priority >= checkpoint.priority) {
    checkpoint.priority = retention.priority;
    checkpoint.retain_until = static_cast<float>(retention.until);
  }
  policy_.used({kind_, index_of(row)}, info(row));
}

RowRef StateComponent::hold(RowId row) {
  policy_.hold({kind_, index_of(row)});
  return pool_.share(row, true);
}

void StateComponent::give_back(RowRef row) {
  const RowId id = row.id();
  row.set_pinned(false);
  if (checkpoints_[index_of(id)].node != kNoNode) put(id);
}

void StateComponent::added(NodeId node, Holding&) { make_room(node); }

void StateComponent::split(NodeId upper, NodeId node) {
  make_room(upper);
  const Depth depth = tree_[upper].end;
  const std::size_t moved = up_to(node, depth);
  const std::span<const RowId> all = rows(node);
  for (const RowId row : all.first(moved)) checkpoints_[index_of(row)].node = upper;
  rows_[index_of(upper)].assign(all.first(moved));
  counts_[index_of(upper)] = static_cast<std::uint32_t>(moved);
  Run<RowId> rest;
  rest.assign(all.subspan(moved));
  counts_[index_of(node)] -= static_cast<std::uint32_t>(moved);
  rows_[index_of(node)] = std::move(rest);
  if (evicted_[index_of(node)] <= depth)
    evicted_[index_of(upper)] = std::exchange(evicted_[index_of(node)], 0);
}

void StateComponent::drop_from(NodeId node, std::size_t from) {
  std::uint32_t& count = counts_[index_of(node)];
  for (std::size_t i = from; i < count; ++i) {
    const RowId row = rows_[index_of(node)].data()[i];
    policy_.erase({kind_, index_of(row)}, true);
    checkpoints_[index_of(row)].node = kNoNode;
    const RowRef last = pool_.adopt(row);
    --count_;
    ++dropped_;
  }
  rows_[index_of(node)].resize(count, from);
  count = static_cast<std::uint32_t>(from);
}

void StateComponent::cutting(NodeId leaf, Depth end) {
  drop_from(leaf, up_to(leaf, end));
  if (evicted_[index_of(leaf)] > end) evicted_[index_of(leaf)] = 0;
}

void StateComponent::removing(NodeId leaf) {
  drop_from(leaf, 0);
  evicted_[index_of(leaf)] = 0;
}

void StateComponent::changed(NodeId node) {
  if (counts_[index_of(node)] > 0) put(rows(node).back());
}

Depth StateComponent::restorable(NodeId node, Depth limit) const {
  const std::optional<RowId> row = deepest(node, limit);
  return row ? depth(*row) : 0;
}

std::optional<EntryInfo> StateComponent::entry_at(NodeId node, Depth depth) const {
  const std::optional<RowId> row = deepest(node, depth);
  if (!row || this->depth(*row) != depth) return std::nullopt;
  return info(*row);
}

double StateComponent::bytes_above(NodeId leaf, Depth from) const {
  return static_cast<double>(counts_[index_of(leaf)] - up_to(leaf, from)) *
         static_cast<double>(pool_.slot_bytes());
}

void StateComponent::evict(std::uint32_t slot, std::uint32_t /*wanted*/) {
  const NodeId node = checkpoints_[slot].node;
  const Depth depth = checkpoints_[slot].depth;
  const std::size_t place = up_to(node, depth) - 1;
  Run<RowId>& of_node = rows_[index_of(node)];
  std::uint32_t& count = counts_[index_of(node)];
  policy_.erase({kind_, slot}, true);
  checkpoints_[slot].node = kNoNode;
  { const RowRef last = pool_.adopt(RowId{slot}); }
  std::copy(of_node.data() + place + 1, of_node.data() + count, of_node.data() + place);
  of_node.resize(count, count - 1);
  --count;
  --count_;
  ++dropped_;
  evicted_[index_of(node)] = depth;
  if (place > 0) put(of_node.data()[place - 1]);
  if (place < count) put(of_node.data()[place]);
  tree_.changed(node);
  tree_.prune(node, true);
}

std::size_t StateComponent::metadata_bytes() const {
  return rows_.metadata_bytes() + counts_.metadata_bytes() + evicted_.metadata_bytes();
}

std::optional<std::string> StateComponent::verify(std::span<const LeaseView> leases) const {
  std::vector<SlotPool<RowId>::Use> uses(pool_.capacity());
  const auto pinned = [&uses](const RowRef& row) {
    ++uses[index_of(row.id())].references;
    ++uses[index_of(row.id())].pins;
  };
  for (const LeaseView& lease : leases) {
    const StateRows& held_rows = static_cast<const StateRows&>(*lease.holdings[kind_]);
    if (held_rows.running) pinned(*held_rows.running);
    if (held_rows.source) pinned(*held_rows.source);
    for (const RowRef& row : held_rows.spare) pinned(row);
    for (const StateRows::Mark& mark : held_rows.prepared) pinned(mark.row);
    for (const StateRows::Mark& mark : held_rows.written) pinned(mark.row);
  }
  std::uint64_t found = 0;
  for (std::uint32_t i = 0; i < counts_.size(); ++i) {
    const NodeId id{i};
    if (counts_[i] > 0 && !tree_.nodes().exists(id)) return "checkpoints without a node";
    Depth before = counts_[i] > 0 ? tree_[id].start : 0;
    for (const RowId row : rows(id)) {
      const Checkpoint& checkpoint = checkpoints_[index_of(row)];
      if (checkpoint.node != id) return "a checkpoint does not know its node";
      if (checkpoint.depth <= before || checkpoint.depth > tree_[id].end)
        return "a checkpoint at " + std::to_string(checkpoint.depth) + " is out of place";
      before = checkpoint.depth;
      ++uses[index_of(row)].references;
      ++found;
    }
  }
  if (found != count_) return "the count of checkpoints is wrong";
  if (auto broken = pool_.verify(uses)) return "rows: " + *broken;
  return std::nullopt;
}

}  // namespace stemma
