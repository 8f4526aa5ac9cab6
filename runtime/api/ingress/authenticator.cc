#include "runtime/api/ingress/authenticator.h"

#include <utility>

#include "runtime/api/ingress/auth.h"
#include "runtime/base/clock.h"

namespace atl::api {
namespace {

using tenants::Denial;

Refusals::Reason ReasonOf(Denial denial) {
  switch (denial) {
    case Denial::kUnknown:
      return Refusals::Reason::kWrongKey;
    case Denial::kExpired:
      return Refusals::Reason::kExpiredKey;
    case Denial::kRevoked:
      return Refusals::Reason::kRevokedKey;
    case Denial::kTenantGone:
      return Refusals::Reason::kTenantGone;
    case Denial::kUnavailable:
      return Refusals::Reason::kProvider;
  }
  return Refusals::Reason::kWrongKey;
}

}  // namespace

void Authenticator::SetApiKey(const std::string& api_key) {
  api_key_ = api_key;
  identity_ = {.key_id = KeyId(secret_, api_key)};
}

Parsed<tenants::Identity> Authenticator::CheckOneKey(const Call& call) {
  auto authorised = Authorise(call.request(), api_key_);
  if (authorised) return identity_;
  refusals_.Add(api_key_.empty()                ? Refusals::Reason::kWebPage
                : KeyOf(call.request()).empty() ? Refusals::Reason::kMissingKey
                                                : Refusals::Reason::kWrongKey,
                call.request(), call.request_id());
  return Refuse(std::move(authorised).error());
}

void Authenticator::Identify(const Call& call,
                             std::function<void(Parsed<tenants::Identity>)> done) {
  const http::Request& request = call.request();
  const std::string_view key = KeyOf(request);
  if (key.empty()) {
    refusals_.Add(Refusals::Reason::kMissingKey, request, call.request_id());
    return done(Refuse(MissingKey()));
  }
  if (HasTwoKeys(request)) return done(Refuse(Deny(call, Denial::kUnknown, false)));
  // A source that guesses does not get the provider to work. A right key is never limited.
  const bool vouched = directory_->IsVouchedFor(key);
  const bool may_ask = vouched || !guesses_.IsSpent({}, request.peer, SystemClock().UnixMillis());
  directory_->Authenticate(
      key, may_ask, [this, call, vouched, done = std::move(done)](tenants::Authenticated holder) {
        if (holder) return done(*std::move(holder));
        done(Refuse(Deny(call, holder.error(), vouched)));
      });
}

http::Response Authenticator::Deny(const Call& call, Denial denial, bool vouched) {
  const http::Request& request = call.request();
  refusals_.Add(ReasonOf(denial), request, call.request_id());
  // A key that was never right counts as a guess also without an answer: each has cost the provider
  // a question.
  const bool too_many =
      (denial != Denial::kUnavailable || !vouched) &&
      !guesses_.Try({}, request.peer, KeyOf(request), false, SystemClock().UnixMillis());
  if (too_many) {
    return ErrorResponse({429, "GENERAL::TOO_MANY", "too many wrong keys from this address",
                          static_cast<int>(GuessLimit::kMillisEach / 1000)});
  }
  if (denial == Denial::kUnavailable) {
    return ErrorResponse(
        {503, "TENANT_PROVIDER_UNAVAILABLE",
         "the service that knows which tenant a key belongs to cannot be reached; try again", 5});
  }
  return InvalidKey();
}

}  // namespace atl::api
