#pragma once
// What other threads ask of the engine thread: new sequences, explanations, cancellations, a flush,
// the end. The engine thread takes everything at once between two steps, and sleeps here when it
// has nothing to do.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace stemma {

// A prompt of which somebody asks what the cache would reuse.
struct Question {
  std::string namespace_key;
  GenerationRequest request;
  Engine::OnExplained done;
};

// Thread-safe. No call waits for a step.
class Mailbox {
 public:
  struct Mail {
    std::vector<std::unique_ptr<Sequence>> submitted;  // in order of their ids
    std::vector<RequestId> cancelled;
    std::vector<Question> questions;
    bool flush = false;
    bool stop = false;
  };

  // Applies `change` to the mail and wakes the engine thread; gives back what `change` returns.
  template <class Change>
  auto post(Change change) {
    std::unique_lock lock(mutex_);
    if constexpr (std::is_void_v<decltype(change(mail_))>) {
      change(mail_);
      lock.unlock();
      filled_.notify_one();
    } else {
      auto result = change(mail_);
      lock.unlock();
      filled_.notify_one();
      return result;
    }
  }

  // Takes all mail. If `idle`, sleeps until there is some.
  Mail collect(bool idle) {
    std::unique_lock lock(mutex_);
    if (idle) {
      filled_.wait(lock, [this] {
        return !mail_.submitted.empty() || !mail_.cancelled.empty() || !mail_.questions.empty() ||
               mail_.flush || mail_.stop;
      });
    }
    const bool stop = mail_.stop;
    Mail mail = std::exchange(mail_, Mail{});
    mail_.stop = stop;  // for good
    return mail;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  Mail mail_;
};

}  // namespace stemma
