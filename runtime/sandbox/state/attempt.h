// One request that makes sandboxes, or makes one anew, until it has been answered: a create, a
// claim of a template's member, a fork, a rollback.
//
// The attempt guards all that the request takes before its outcome is recorded: the
// Idempotency-Key, and each sandbox with its name, its share of the host, its volumes, its vault
// and its slot. An attempt that fails gives back all of it at once, whatever has failed; its
// destructor fails one that nobody has ended. So no path of any of the four can forget a part.
//
// A client that repeats the request by its key while it is under way joins it, and gets the same
// answer.
//
// Thread rule: on the loop. Whoever calls Fail or Answer holds a reference.
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

// Why a request was refused.
struct CreateError : Error {
  explicit CreateError(Error error, std::optional<wire::Volume::Kind> kind = std::nullopt)
      : Error(std::move(error)), volume(kind) {}
  std::optional<wire::Volume::Kind> volume;  // because one of this kind cannot be had
  bool snapshot = false;                     // because it cannot be restored from
  bool image = false;                        // because the operator does not allow its image
  bool pool = false;                         // because its pool is not there, or gives no more
  bool from_template = false;                // the same of its template
};
using Created = std::function<void(const tl::expected<Sandbox, CreateError>&)>;

// How a sandbox comes to be: built for its request, or out of something that was there.
enum class Origin : uint8_t { kCold, kPool, kTemplate, kSnapshot, kFork };
inline constexpr int kOrigins = 5;

class Attempt {
 public:
  // kStock: a member of a template, which no client has asked for.
  enum class Kind : uint8_t { kCreate, kStock, kFork, kRollback };
  struct Request {
    Kind kind = Kind::kCreate;
    std::string key;          // its Idempotency-Key; empty: none
    std::string fingerprint;  // of what it asks for; with a key
    std::string request_id;   // for the log
    std::string of;           // the sandbox that is forked or rolled back
    Origin origin = Origin::kCold;
    int64_t made_ms = 0;
  };
  // The ids of what has come of it.
  using Outcome = tl::expected<std::vector<std::string>, CreateError>;
  using Answered = std::function<void(const Outcome&)>;

  // Takes back all that there is of its sandboxes, in whatever state they are.
  using TakeBack = std::function<void(const Attempt& attempt, const CreateError& why)>;
  struct Parts {
    TakeBack take_back;
    Idempotency& keys;
    Store& store;
    std::weak_ptr<const void> alive;  // all of them are there
  };
  Attempt(Parts parts, Request request);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt();

  // For the answer.
  void Join(Answered answered) { waiters_.push_back(std::move(answered)); }
  // This sandbox comes of it, or is what it makes anew.
  void Take(const std::string& id) { sandboxes_.push_back(id); }
  // The key to record in the same transaction as the sandboxes. Empty: the request has no key.
  std::optional<KeyRecord> key() const;
  // Tells that the key's record is in the store. If the attempt fails later, it removes the record.
  void KeyStored() { key_stored_ = !request_.key.empty(); }

  // The outcome is recorded, the key with it: nothing is taken back any more.
  void Commit();
  // Tells everybody that it was carried out. Behind Commit.
  void Answer();
  // Takes back all, unless it is committed, and tells everybody why. Without effect once it is
  // over.
  void Fail(const CreateError& why);
  // It has been answered, or is being so.
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
