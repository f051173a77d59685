"""Gives a user a password for SCRAM, by both hashes: BOOTSTRAP USER PASSWORD."""

import sys

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

bootstrap, user, password = sys.argv[1:]
client = AdminClient({"bootstrap.servers": bootstrap})
for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
    # One at a time: a user's credentials cannot be altered twice in a request.
    change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
    for done in client.alter_user_scram_credentials([change]).values():
        done.result()
