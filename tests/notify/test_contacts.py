"""Who a recipient is, said again and again on both databases: all else that is known of them stays."""

from leaseway_notify.profile import Preferences, Profile
from leaseway_notify.stores.store import SqlStore
from support.notify_stores import NOW, subscription


async def test_a_contact_is_saved_and_all_else_stays(store: SqlStore) -> None:
    await store.change_preferences("ada", lambda _: Preferences(collaborating=True))
    await store.set_working_on("ada", "doc-1", NOW)
    await store.save_contact(Profile("ada", "new@example.com", "Ada", "Europe/Berlin"))
    kept = Profile(
        "ada",
        "new@example.com",
        "Ada",
        "Europe/Berlin",
        Preferences(collaborating=True),
        (subscription(),),
        {"doc-1": NOW},
    )
    assert await store.profile("ada") == kept


async def test_a_contact_makes_a_profile(store: SqlStore) -> None:
    await store.save_contact(Profile("bea", zone="Europe/Berlin"))
    assert await store.profile("bea") == Profile("bea", zone="Europe/Berlin")
