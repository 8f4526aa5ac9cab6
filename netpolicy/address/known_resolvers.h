// Public resolvers that answer over HTTPS. A program that asks them learns addresses without our
// name server. If a policy allows by default and denies some names, these resolvers are denied too,
// unless a rule names them. The list holds only the large ones. A policy that denies by default
// does not need it.
#pragma once

namespace atl::netpolicy {

inline constexpr const char* kKnownResolverNames[] = {
    "dns.google",         "dns.google.com",
    "dns64.dns.google",   "8888.google",
    "cloudflare-dns.com", "*.cloudflare-dns.com",
    "one.one.one.one",    "1dot1dot1dot1.cloudflare-dns.com",
    "dns.quad9.net",      "*.quad9.net",
    "dns.opendns.com",    "doh.opendns.com",
    "*.nextdns.io",       "*.adguard-dns.com",
    "*.adguard.com",      "doh.cleanbrowsing.org",
    "*.controld.com",     "doh.dns.sb",
    "dns.alidns.com",     "doh.pub",
    "dns.mullvad.net",    "*.dns.mullvad.net",
};

// The same resolvers by address; they are denied at port 443.
inline constexpr const char* kKnownResolverAddresses[] = {
    "8.8.8.8",
    "8.8.4.4",
    "1.1.1.1",
    "1.0.0.1",
    "1.1.1.2",
    "1.0.0.2",
    "1.1.1.3",
    "1.0.0.3",
    "9.9.9.9",
    "9.9.9.10",
    "9.9.9.11",
    "149.112.112.112",
    "208.67.222.222",
    "208.67.220.220",
    "94.140.14.14",
    "94.140.15.15",
    "223.5.5.5",
    "223.6.6.6",
    "2001:4860:4860::8888",
    "2001:4860:4860::8844",
    "2606:4700:4700::1111",
    "2606:4700:4700::1001",
    "2620:fe::fe",
    "2620:fe::9",
    "2620:119:35::35",
    "2620:119:53::53",
};

}  // namespace atl::netpolicy
