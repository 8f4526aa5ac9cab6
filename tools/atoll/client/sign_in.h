// A person's sign-in at an identity provider, for a program without a browser: the device
// authorization grant of OAuth 2.0 (RFC 8628), its renewal and its end. Addresses come from the
// provider's metadata (OpenID Connect Discovery). All of them are https, or of this host's
// loopback.
//
// Errors are in plain words. No secret is in them.
//
// Thread rule: blocks.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::cli {

struct SignIn {
  std::string issuer;
  std::string client_id;
  std::string scope;
  std::string audience;  // some providers want it; empty: not sent
  std::string token_endpoint;
  std::string revocation_endpoint;  // empty: none
  std::string token;                // the signed token that servers get as a key
  std::string refresh_token;        // empty: none
  int64_t expires_s = 0;            // end of `token`, in seconds since the Unix epoch
};

// The task of the person, in the provider's words.
struct DeviceCode {
  std::string device_code;  // secret
  std::string user_code;
  std::string address;       // page that asks for the user's code
  std::string full_address;  // the same with the code in it; empty: none
  int64_t lives_s = 0;
  int64_t interval_s = 5;  // between two questions
};

// Fills in the endpoints of `sign_in->issuer`, and asks it for a code.
Result<DeviceCode> AskForCode(SignIn* sign_in);
// Waits until the person has said yes, and takes the tokens. kPermissionDenied: they said no.
// kDeadlineExceeded: they said nothing while the code was good.
Status AwaitConsent(const DeviceCode& code, SignIn* sign_in);
// Gets a new token by the refresh token. kPermissionDenied: the sign-in has ended. kUnavailable:
// the provider cannot be reached.
Status Renew(SignIn* sign_in);
// Tells the provider that the refresh token has ended, if it wants to know.
Status Withdraw(const SignIn& sign_in);

}  // namespace atl::cli
