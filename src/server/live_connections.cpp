#include "server/live_connections.h"

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
  if (--owner_.active_ > 0) return;
  owner_.quiet_.notify_all();
  owner_.on_quiet_();
}

void LiveConnections::drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

bool LiveConnections::draining() const {
  std::lock_guard lock(mutex_);
  return draining_;
}

// Connections are told outside the lock, which the end of one takes.

void LiveConnections::give_up() {
  std::unique_lock lock(mutex_);
  draining_ = giving_up_ = true;
  const auto connections = alive();
  lock.unlock();
  for (const auto& connection : connections) connection->wake_soon();
}

bool LiveConnections::giving_up() const {
  std::lock_guard lock(mutex_);
  return giving_up_;
}

void LiveConnections::stop() {
  std::unique_lock lock(mutex_);
  draining_ = giving_up_ = stopped_ = true;
  const auto connections = alive();
  lock.unlock();
  for (const auto& connection : connections) connection->abort_soon();
}

bool LiveConnections::quiet() const {
  std::lock_guard lock(mutex_);
  return active_ == 0;
}

void LiveConnections::wait_until_quiet(std::chrono::duration<double> duration) {
  std::unique_lock lock(mutex_);
  quiet_.wait_for(lock, duration, [this] { return active_ == 0; });
}

std::vector<std::shared_ptr<Connection>> LiveConnections::alive() const {
  std::vector<std::shared_ptr<Connection>> alive;
  for (const auto& entry : connections_) {
    if (auto connection = entry.lock()) alive.push_back(std::move(connection));
  }
  return alive;
}

std::size_t LiveConnections::connections() const {
  std::lock_guard lock(mutex_);
  return connections_.size();
}

}  // namespace stemma
