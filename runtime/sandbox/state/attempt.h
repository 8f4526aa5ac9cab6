// One request that makes sandboxes, or replaces one, until it has been answered: a create, a claim
// of a template's member, a fork, or a rollback.
//
// The attempt guards all resources that the request takes before its outcome is recorded: the
// Idempotency-Key, and for each sandbox its name, its share of the host, its volumes, its vault and
// its slot. A failed attempt gives back all of them at once. The destructor fails an attempt that
// was neither committed nor failed. So no code path of the four can leak a resource.
//
// If a client repeats a pending request by its key, the repetition joins the attempt and gets the
// same answer.
//
// Thread rule: on the loop. The caller of Fail or Answer holds a reference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/idempotency.h"

namespace atl::sandbox {

class Store;

// The reason why a request was refused.
struct CreateError : Error {
  explicit CreateError(Error error, std::optional<wire::Volume::Kind> kind = std::nullopt)
      : Error(std::move(error)), volume(kind) {}
  std::optional<wire::Volume::Kind> volume;  // the kind of volume that is not available
  bool snapshot = false;                     // its snapshot cannot be restored
  bool image = false;                        // the operator does not allow its image
  bool isolation = false;                    // its tier is not allowed, or not available
  bool pool = false;                         // its pool does not exist or is exhausted
  bool from_template = false;                // its template does not exist or is exhausted
};
using Created = std::function<void(const tl::expected<Sandbox, CreateError>&)>;

// How a sandbox is made: built cold, or from something that existed before.
enum class Origin : uint8_t { kCold, kPool, kTemplate, kSnapshot, kFork };
inline constexpr int kOrigins = 5;

class Attempt {
 public:
  // kStock: a member of a template; no client asked for it.
  enum class Kind : uint8_t { kCreate, kStock, kFork, kRollback };
  struct Request {
    Kind kind = Kind::kCreate;
    std::string tenant = {};  // the owner of the key; Attempts::Begin sets it
    std::string key;          // the Idempotency-Key; empty: none
    std::string fingerprint;  // fingerprint of what it asks for, if there is a key
    std::string request_id;   // names the request in the log
    std::string of;           // the sandbox that is forked or rolled back
    Origin origin = Origin::kCold;
    int64_t made_ms = 0;
  };
  // The ids of the sandboxes that the attempt made, or the error.
  using Outcome = tl::expected<std::vector<std::string>, CreateError>;
  using Answered = std::function<void(const Outcome&)>;

  // Takes back everything that the attempt's sandboxes hold, whatever their states.
  using TakeBack = std::function<void(const Attempt& attempt, const CreateError& why)>;
  struct Parts {
    TakeBack take_back;
    Idempotency& keys;
    Store& store;
    std::weak_ptr<const void> alive;  // valid while all parts exist
  };
  Attempt(Parts parts, Request request);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt();

  // Adds a caller that waits for the answer.
  void Join(Answered answered) { waiters_.push_back(std::move(answered)); }
  // Adds a sandbox that the attempt makes or replaces.
  void Take(const std::string& id) { sandboxes_.push_back(id); }
  // Returns the key to record in the same transaction as the sandboxes. Empty: the request has no
  // key.
  std::optional<KeyRecord> key() const;
  // Notes that the store has the key's record. If the attempt fails later, it removes the record.
  void KeyStored() { key_stored_ = !request_.key.empty(); }

  // The store has the outcome and the key: from now on nothing is taken back.
  void Commit();
  // Answers all waiting callers with success. Call after Commit.
  void Answer();
  // Takes back everything, unless the attempt is committed, and answers all waiting callers with
  // the error. Does nothing if the attempt is over.
  void Fail(const CreateError& why);
  // Returns true once the attempt has been answered, or is being answered.
  bool over() const { return over_; }

  const Request& request() const { return request_; }
  const std::vector<std::string>& sandboxes() const { return sandboxes_; }

 private:
  void Tell(const Outcome& outcome);

  const Parts parts_;
  const Request request_;
  std::vector<std::string> sandboxes_;
  std::vector<Answered> waiters_;
  bool key_stored_ = false;
  bool committed_ = false;
  bool over_ = false;
};

}  // namespace atl::sandbox
