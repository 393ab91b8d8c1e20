#include "server/event_queue.h"

#include "server/connection.h"

namespace stemma {

namespace {

class ChoiceSink final : public RequestSink {
 public:
  ChoiceSink(std::shared_ptr<EventQueue> queue, std::size_t choice) : queue_(std::move(queue)), choice_(choice) {}

  void on_token(const Sampled& token) override { queue_->push({choice_, token}); }
  void on_finish(const GenerationResult& result) override { queue_->push({choice_, result}); }

 private:
  std::shared_ptr<EventQueue> queue_;
  std::size_t choice_;
};

}  // namespace

std::shared_ptr<RequestSink> EventQueue::sink(std::shared_ptr<EventQueue> queue, std::size_t choice) {
  return std::make_shared<ChoiceSink>(std::move(queue), choice);
}

void EventQueue::push(ChoiceEvent event) {
  std::lock_guard lock(mutex_);
  if (!reader_) return;
  events_.push_back(std::move(event));
  if (!std::exchange(woken_, true)) reader_->wake_soon();
}

std::vector<ChoiceEvent> EventQueue::take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(events_, {});
}

void EventQueue::close() {
  std::shared_ptr<Connection> reader;
  std::lock_guard lock(mutex_);
  reader.swap(reader_);
  events_.clear();
}

}  // namespace stemma
