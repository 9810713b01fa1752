"""Vault room: readable names for made-up films, such as "Space Opera 12: The Long Orbit". Public: nobody made them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

GENRES = {
    "Space Opera": "Orbit Signal Colony Starship Horizon Nebula Crossing Machine",
    "Nordic Noir": "Fjord Ferry Snowfall Confession Lighthouse Alibi Winter Witness",
    "Heist Comedy": "Vault Getaway Diamond Disguise Blueprint Safe Partner Decoy",
    "Folk Horror": "Harvest Well Orchard Effigy Parish Hollow Solstice Scarecrow",
    "Courtroom Drama": "Verdict Oath Appeal Juror Precedent Objection Motive Defence",
    "Western": "Saddle Canyon Sheriff Stagecoach Ridge Telegraph Ranch Outlaw",
    "Romantic Comedy": "Wedding Bakery Neighbour Letter Umbrella Florist Train Proposal",
    "Spy Thriller": "Cipher Courier Embassy Handler Dossier Double Border Microfilm",
    "Nature Documentary": "Glacier Migration Reef Savanna Wolf Monsoon Canopy Tide",
    "Musical": "Overture Encore Understudy Refrain Ballroom Chorus Matinee Spotlight",
    "Kung Fu": "Temple Crane Master Tournament Bamboo Fist Disciple Mountain",
    "Coming of Age": "Summer Bicycle Diary Mixtape Lake Graduation Attic Bus",
}
_QUALITIES = "Long Silent Last Broken Golden Hidden Second Distant Crooked Borrowed Bitter Bright Lost Paper Slow Northern"
_MIXES = 5  # coprime to the number of qualities, so that quality and noun run through all their pairs


def film_names(genres: npt.NDArray[np.int32]) -> list[str]:
    """A distinct name for each film of these genres (numbers into `GENRES`), for any number of films."""
    words = list(GENRES)
    nouns = [GENRES[word].split() for word in words]
    qualities = _QUALITIES.split()
    made = [0] * len(words)
    names = []
    for genre in genres.tolist():
        made[genre] += 1  # the number alone makes the name distinct within its genre
        number = made[genre]
        noun = nouns[genre][number % len(nouns[genre])]
        quality = qualities[(number // len(nouns[genre]) + _MIXES * number + 3 * genre) % len(qualities)]
        names.append(f"{words[genre]} {number}: The {quality} {noun}")
    return names
