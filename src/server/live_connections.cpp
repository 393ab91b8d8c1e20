#include "server/live_connections.h"

#include <vector>

#include "server/connection.h"

namespace stemma {

LiveConnections::Handle::Handle(LiveConnections& owner, const std::shared_ptr<Connection>& connection)
    : owner_(owner) {
  std::lock_guard lock(owner_.mutex_);
  place_ = owner_.connections_.insert(owner_.connections_.end(), connection);
  if (owner_.stopped_) connection->abort_soon();
}

LiveConnections::Handle::~Handle() {
  std::lock_guard lock(owner_.mutex_);
  owner_.connections_.erase(place_);
}

LiveConnections::Activity::Activity(LiveConnections& owner) : owner_(owner) {
  std::lock_guard lock(owner_.mutex_);
  ++owner_.active_;
}

LiveConnections::Activity::~Activity() {
  std::lock_guard lock(owner_.mutex_);
  if (--owner_.active_ == 0) owner_.quiet_.notify_all();
}

void LiveConnections::drain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  for_each([](Connection& connection) { connection.wake_soon(); });
}

bool LiveConnections::draining() const {
  std::lock_guard lock(mutex_);
  return draining_;
}

void LiveConnections::stop() {
  {
    std::lock_guard lock(mutex_);
    draining_ = stopped_ = true;
  }
  for_each([](Connection& connection) { connection.abort_soon(); });
}

void LiveConnections::wait_until_quiet(std::chrono::duration<double> duration) {
  std::unique_lock lock(mutex_);
  quiet_.wait_for(lock, duration, [this] { return active_ == 0; });
}

std::size_t LiveConnections::connections() const {
  std::lock_guard lock(mutex_);
  return connections_.size();
}

void LiveConnections::for_each(const std::function<void(Connection&)>& act) {
  std::vector<std::shared_ptr<Connection>> alive;
  {
    std::lock_guard lock(mutex_);
    for (const auto& entry : connections_) {
      if (auto connection = entry.lock()) alive.push_back(std::move(connection));
    }
  }
  for (const auto& connection : alive) act(*connection);
}

}  // namespace stemma
