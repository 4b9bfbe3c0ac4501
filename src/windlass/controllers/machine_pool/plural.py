"""Plurals, as Cluster API makes them to find the definition of a kind. Some are no English; providers follow suit."""

_WORDS = """
    aircraft=aircraft beef=beef bison=bison blues=blues chassis=chassis deer=deer fish=fish moose=moose
    police=police salmon=salmon series=series sheep=sheep shrimp=shrimp species=species swine=swine
    trout=trout tuna=tuna you=you child=children foot=feet goose=geese man=men human=humans mouse=mice
    tooth=teeth woman=women person=people adieu=adieux fabliau=fabliaux bureau=bureaus criterion=criteria
    ganglion=ganglia lexicon=lexica mitochondrion=mitochondria noumenon=noumena phenomenon=phenomena
    taxon=taxa media=media medium=media stadium=stadiums aquarium=aquaria auditorium=auditoria
    symposium=symposia curriculum=curriculums quota=quotas alumnus=alumni bacillus=bacilli cactus=cacti
    coccus=cocci focus=foci locus=loci nucleus=nuclei octopus=octupuses radius=radii syllabus=syllabi
    corpus=corpora genus=genera alumna=alumnae vertebra=vertebrae differentia=differentiae minutia=minutiae
    vita=vitae larva=larvae postcava=postcavae praecava=praecavae uva=uvae apex=apices codex=codices
    index=indices latex=latices vertex=vertices vortex=vortices appendix=appendices radix=radices
    helix=helices crisis=crises ellipsis=ellipses genesis=geneses oasis=oases thesis=theses testis=testes
    base=bases basis=bases vedalia=vedalias abuse=abuses cause=causes clause=clauses cruse=cruses
    excuse=excuses fuse=fuses house=houses misuse=misuses muse=muses pause=pauses ache=aches topaz=topazes
    buffalo=buffaloes potato=potatoes tomato=tomatoes equipment=equipment information=information jeans=jeans
    money=money news=news rice=rice dwarf=dwarfs hoof=hoofs thief=thieves chive=chives hive=hives move=moves
    movie=movies cookie=cookies pretorium=pretoriums agenda=agendas formula=formulas shoe=shoes
    graffiti=graffiti
"""
"""Whole words, which also count as endings; of two that fit, the later one."""

_WHOLE_WORDS = """
    ox=oxen louse=lice die=dice axis=axes alias=aliases use=uses toe=toes
"""

_OTHER_PLURALS = """
    beefs fishes salmons shrimps swines trouts tunas adieus bureaux ganglions lexicons mitochondrions
    stadia aquariums auditoriums symposiums curricula alumnuses cactuses focuses locuses nucleuses octopi
    radiuses corpuses apexes codexes indexes latexes vertexes vortexes appendixes radixes helixes buffalos
    dwarves hooves formulae
"""
"""Plurals besides those of the words above."""

_ENDINGS = """
    tive=tives eaf=eaves oaf=oaves afe=aves arf=arves rfe=rves rf=rves lf=lves fe=ves ay=ays ey=eys oy=oys
    quy=quies uy=uys y=ies eau=eaux bula=bulae dula=bulae lula=bulae nula=bulae vula=bulae hedron=hedra ium=ia
    seum=seums eum=ea oum=oa stracum=straca dum=da elum=ela ilum=ila olum=ola ulum=ula llum=lla ylum=yla
    imum=ima ernum=erna gnum=gna brum=bra crum=cra terum=tera serum=sera trum=tra antum=anta atum=ata
    entum=enta etum=eta itum=ita otum=ota utum=uta ctum=cta ovum=ova trix=trices iasis=iases mesis=meses
    kinesis=kineses resis=reses gnosis=gnoses opsis=opses ysis=yses ouse=ouses lause=lauses us=uses ch=ches
    io=ios sh=shes ss=sses ez=ezzes iz=izzes tz=tzes zz=zzes ano=anos lo=los to=tos oo=oos o=oes x=xes
"""
"""Of two that fit, the earlier one."""


def _read(table: str) -> list[tuple[str, str]]:
    pairs = (entry.partition("=") for entry in table.split())
    return [(singular, plural) for singular, _, plural in pairs]


_BY_SINGULAR = dict(_read(_WORDS) + _read(_WHOLE_WORDS))
_ONE_WAY = ("blues", "medium", "ellipsis", "basis")
"""Words whose plural may be another word's singular."""
_PLURALS = {plural for singular, plural in _BY_SINGULAR.items() if singular not in _ONE_WAY}.union(
    _OTHER_PLURALS.split()
)
_BY_ENDING = [*reversed(_read(_WORDS)), *_read(_ENDINGS)]


def pluralize(word: str) -> str:
    """The plural of a word in lower case; a word that looks like a plural stays as it is."""
    if word in _BY_SINGULAR:
        return _BY_SINGULAR[word]
    if word in _PLURALS:
        return word
    for singular, plural in _BY_ENDING:
        if word.endswith(plural):
            return word
        if word.endswith(singular):
            return word.removesuffix(singular) + plural
    return word if word.endswith("s") else f"{word}s"
