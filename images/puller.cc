#include "images/puller.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "images/registry/fetch.h"
#include "images/registry/patience.h"
#include "images/registry/reference.h"
#include "images/registry/session.h"
#include "runtime/base/fair_places.h"
#include "runtime/base/log.h"
#include "runtime/http/blocking_pool.h"

namespace atl::images {
namespace {

using registry::Amount;
using registry::Patience;
using registry::Reference;

// Two threads, because more would only share the same network connection.
constexpr int kThreads = 2;
// Most pulls, running and waiting.
constexpr size_t kMaxPulls = 16;

std::string Mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

std::string Describe(const std::string& name, const Amount& amount) {
  const uint64_t total = amount.total;
  const uint64_t received = amount.received;
  if (total == 0) return "image " + name + " is being requested from its registry";
  if (received < total) {
    return "image " + name + " is being pulled: " + Mebibytes(received) + " of " +
           Mebibytes(total) + " have arrived";
  }
  return "image " + name + " was received; its layers are being unpacked";
}

// The state of one pull, used on a thread of the pool.
struct Pulling {
  Caller caller;
  std::string name;
  Credentials credentials;
  std::set<std::string> here;  // layers that need not be fetched
  UniqueFd archive;
  Amount amount;
  Status fetched;
};

Status Fetch(const Puller::Config& config, Pulling& pulling) {
  Reference reference = registry::ReferenceOf(pulling.name);
  Credentials credentials = pulling.credentials;
  if (credentials.empty() && !config.auth_file.empty()) {
    ATOLL_ASSIGN(credentials, registry::ReadCredentials(config.auth_file, reference.registry));
  }
  ATOLL_ASSIGN(auto patience, Patience::Start());
  ATOLL_ASSIGN(auto trust, http::TlsContext::ForClient(config.authorities));
  ATOLL_ASSIGN(registry::Session session,
               registry::Session::Open(std::move(reference), std::move(credentials),
                                       std::move(trust), std::move(patience)));
  return FetchImage(session, pulling.name, pulling.here, pulling.archive.get(), kMaxArchiveBytes,
                    pulling.amount);
}

class RegistryPuller final : public Puller {
 public:
  RegistryPuller(Loop& loop, ImageStore& images, Config config,
                 std::unique_ptr<http::BlockingPool> pool)
      : loop_(loop), images_(images), config_(std::move(config)), pool_(std::move(pool)) {}

  bool MayPull(const std::string& name) const override {
    return registry::MayPull(config_.rules, name);
  }
  Status CheckRoom(const Caller& caller) const override {
    const auto own =
        std::ranges::count_if(pulls_, [&caller](const std::shared_ptr<Pulling>& pulling) {
          return pulling->caller.tenant == caller.tenant;
        });
    if (FairPlaces::Allows(kMaxPulls, caller.tenant, pulls_.size(), static_cast<uint64_t>(own))) {
      return {};
    }
    return Fail(Code::kUnavailable,
                (caller.tenant.empty() ? std::to_string(pulls_.size()) : "too many") +
                    " images are being pulled; try again later");
  }
  Progress Pull(const Caller& caller, const std::string& name, Credentials credentials,
                std::function<void(const Status&)> done) override;

 private:
  using Done = std::function<void(const Status&)>;
  Status Start(const std::shared_ptr<Pulling>& pulling, const Done& done);
  Status Begin(const std::shared_ptr<Pulling>& pulling, const Done& done);
  void Fetched(const std::shared_ptr<Pulling>& pulling, const Done& done);
  void End(const std::shared_ptr<Pulling>& pulling, const Status& status, const Done& done);
  // Returns true if a layer that was not fetched has been removed from the store meanwhile.
  bool HasLost(const Pulling& pulling) const;

  Loop& loop_;
  ImageStore& images_;
  const Config config_;
  std::set<std::shared_ptr<Pulling>> pulls_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  // declared last, so that its threads end before the other members are destroyed
  const std::unique_ptr<http::BlockingPool> pool_;
};

Puller::Progress RegistryPuller::Pull(const Caller& caller, const std::string& name,
                                      Credentials credentials, Done done) {
  const auto pulling = std::make_shared<Pulling>();
  pulling->caller = caller;
  pulling->name = name;
  pulling->credentials = std::move(credentials);
  if (const Status started = Start(pulling, done); !started) {
    loop_.Post([started, done] { done(started); });
  }
  return [pulling] { return Describe(pulling->name, pulling->amount); };
}

Status RegistryPuller::Start(const std::shared_ptr<Pulling>& pulling, const Done& done) {
  ATOLL_TRY(CheckRoom(pulling->caller));
  pulling->here = images_.LayerDigests(pulling->caller);
  ATOLL_TRY(Begin(pulling, done));
  pulls_.insert(pulling);
  LogLine(LogLevel::kInfo, "pulling an image").Add("image", pulling->name);
  return {};
}

Status RegistryPuller::Begin(const std::shared_ptr<Pulling>& pulling, const Done& done) {
  ATOLL_ASSIGN(pulling->archive, images_.TemporaryFile());
  pulling->amount.received = 0;
  pool_->Run([this, pulling, done] {
    pulling->fetched = Fetch(config_, *pulling);
    loop_.Post([this, alive = std::weak_ptr(alive_), pulling, done] {
      if (!alive.expired()) Fetched(pulling, done);
    });
  });
  return {};
}

void RegistryPuller::Fetched(const std::shared_ptr<Pulling>& pulling, const Done& done) {
  if (!pulling->fetched) return End(pulling, pulling->fetched, done);
  images_.Import(pulling->caller, std::move(pulling->archive), pulling->name,
                 [this, alive = std::weak_ptr(alive_), pulling, done](const Result<Image>& image) {
                   if (alive.expired()) return;
                   Status status = image ? Status() : Fail(image.error());
                   if (!status && HasLost(*pulling)) {
                     pulling->here.clear();
                     status = Begin(pulling, done);
                     if (status) return;
                   }
                   End(pulling, status, done);
                 });
}

bool RegistryPuller::HasLost(const Pulling& pulling) const {
  const std::set<std::string> here = images_.LayerDigests(pulling.caller);
  return !std::includes(here.begin(), here.end(), pulling.here.begin(), pulling.here.end());
}

void RegistryPuller::End(const std::shared_ptr<Pulling>& pulling, const Status& status,
                         const Done& done) {
  pulls_.erase(pulling);
  pulling->credentials = {};
  LogLine line(status ? LogLevel::kInfo : LogLevel::kWarning,
               status ? "image pulled" : "cannot pull an image");
  line.Add("image", pulling->name).Add("bytes", pulling->amount.received.load());
  if (!status) line.Add(status.error());
  done(status);
}

}  // namespace

Result<std::unique_ptr<Puller>> Puller::Create(Loop& loop, ImageStore& images, Config config) {
  ATOLL_ASSIGN(auto pool, http::BlockingPool::Create(kThreads));
  return std::make_unique<RegistryPuller>(loop, images, std::move(config), std::move(pool));
}

}  // namespace atl::images
