#include "memory/memory.h"

namespace stemma {

Result<std::unique_ptr<Memory>> Memory::create(Device& device, const KvLayout& kv_of_model,
                                               const StateLayout& state_of_model,
                                               const MemorySplit& split) {
  KvLayout kv = kv_of_model;
  StateLayout state = state_of_model;
  kv.slot_alignment = state.slot_alignment = split.slot_alignment;
  STEMMA_TRY(auto pages, device.make_pages(kv, split.page_count));
  STEMMA_TRY(auto states, device.make_states(state, split.row_count));
  pages->populate(split.warm_pages);
  states->populate(split.warm_rows);
  return std::unique_ptr<Memory>(new Memory(std::move(pages), std::move(states)));
}

Memory::Memory(std::unique_ptr<PageBuffer> pages, std::unique_ptr<StateBuffer> states)
    : pages_(std::move(pages)), states_(std::move(states)) {}

void Memory::restore(Lease& lease) {
  const RestorePlan& plan = lease.restore_plan();
  if (const std::optional<RowId> row = lease.state_row()) {
    if (plan.state_from) {
      states_->copy_row(*plan.state_from, *row);
    } else {
      states_->clear_row(*row);
    }
  }
  if (plan.page_copy)
    pages_->copy_page(plan.page_copy->from, plan.page_copy->to, plan.page_copy->slots);
  lease.restored();
}

void Memory::release(const Cache::Cooled& cooled) {
  for (const PageId page : cooled.pages) pages_->release(page);
  for (const RowId row : cooled.rows) states_->release(row);
}

}  // namespace stemma
