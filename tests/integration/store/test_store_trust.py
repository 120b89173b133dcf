"""Folder trust is stored by repository, and revoked as a whole."""

from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

SHOP, FARM = "file:///shop/.git", "file:///farm/.git"


def agree(user, identity, fingerprint, **files):
    with user.transaction():
        user.trust.agree(identity, fingerprint, files)


def test_trust_is_visible_to_the_next_process_the_latest_last(user, user_path, clock):
    agree(user, SHOP, "f1", mcp="1")
    clock.advance(1)
    agree(user, SHOP, "f2", mcp="2")
    clock.advance(1)
    agree(user, SHOP, "f1", mcp="1")
    agree(user, FARM, "f1", mcp="9")
    other = UserStore.open(user_path, clock=FakeClock())
    assert [each.files for each in other.trust.agreed(SHOP)] == [{"mcp": "2"}, {"mcp": "1"}]
    assert other.trust.agreed(SHOP)[-1].decided_at == clock.now()
    other.close()


def test_revoked_trust_is_gone_with_all_earlier_entries(user):
    agree(user, SHOP, "f1", mcp="1")
    agree(user, SHOP, "f2", mcp="2")
    agree(user, FARM, "f1", mcp="1")
    with user.transaction():
        assert (user.trust.revoke(SHOP), user.trust.revoke(SHOP)) == (2, 0)
    assert (user.trust.agreed(SHOP), len(user.trust.agreed(FARM))) == ((), 1)
