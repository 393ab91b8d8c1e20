#pragma once
// Which connections there are and how many requests are under way: what stopping and draining need.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace stemma {

class Connection;

// Thread-safe. Holds no connection alive.
class LiveConnections {
 public:
  // `on_quiet` is called, under the lock, whenever the last request under way ends.
  explicit LiveConnections(std::function<void()> on_quiet = [] {}) : on_quiet_(std::move(on_quiet)) {}

  // Registers a connection until the handle goes. Once stop() was called the connection is told to abort.
  class Handle {
   public:
    Handle(LiveConnections& owner, const std::shared_ptr<Connection>& connection);
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

   private:
    LiveConnections& owner_;
    std::list<std::weak_ptr<Connection>>::iterator place_;
  };

  // One request under way, from its headers to the last byte of its answer.
  class Activity {
   public:
    explicit Activity(LiveConnections& owner);
    ~Activity();
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;

   private:
    LiveConnections& owner_;
  };

  // From now on draining() holds.
  void drain();
  bool draining() const;

  // From now on giving_up() holds, too; requests under way are woken up to notice.
  void give_up();
  bool giving_up() const;

  // Aborts all connections, also those that come later.
  void stop();

  // No request is under way.
  bool quiet() const;

  // Waits until no request is under way or `duration` is over.
  void wait_until_quiet(std::chrono::duration<double> duration);

  std::size_t connections() const;

 private:
  std::vector<std::shared_ptr<Connection>> alive() const;  // under the lock

  const std::function<void()> on_quiet_;
  mutable std::mutex mutex_;
  std::condition_variable quiet_;
  std::list<std::weak_ptr<Connection>> connections_;
  std::size_t active_ = 0;
  bool draining_ = false;
  bool giving_up_ = false;
  bool stopped_ = false;
};

}  // namespace stemma
